// Package top is the live view of a gateway: what is read of it at each moment (Snapshot), what follows of the last
// minutes (Watch), what is shown (Frame), and how, on a terminal of any size (render) or as text (Frame.Write). It
// knows the admin API's replies and nobody who asks for them: that is the command `gateway top`.
package top
