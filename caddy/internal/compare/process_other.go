//go:build !linux

package main

import "time"

func (t target) cpu() (time.Duration, error) { return 0, nil }

func (t target) memory() (int64, error) { return 0, nil }
