package decisions

// EncodeForTest is a block of some records.
func EncodeForTest(list ...Record) []byte {
	var b block
	b.reset()
	for i := range list {
		b.add(&list[i])
	}
	return b.data()
}

// DecodeForTest reads a block.
func DecodeForTest(data []byte, each func(*Record)) error {
	var r Record
	return eachIn(data, &r, func() error {
		each(&r)
		return nil
	})
}
