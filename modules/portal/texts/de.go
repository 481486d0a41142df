package texts

var german = map[string]string{}
