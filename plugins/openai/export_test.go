package openai

// Base is the address of a preset.
func Base(name string) string { return presets[name].base }
