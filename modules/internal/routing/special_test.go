package routing_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fareway/fareway/config"
	"github.com/fareway/fareway/modules/internal/routing"
	"github.com/fareway/fareway/plugins/llm"
)

// kept makes a route that is kept for specialties.
func kept(name string, window int64, specialties ...config.Specialty) config.Route {
	r := route(name, 0.5, 1)
	r.ContextWindow, r.Specialty = window, specialties
	return r
}

// TestRaisedAllowance is worked example E06.
func TestRaisedAllowance(t *testing.T) {
	t.Parallel()
	const none = 0
	for _, tt := range []struct {
		clause             string
		specialty          config.Specialty
		limit, room, given int64
		sent               int64
	}{
		{"ALLOW-13", config.LongContext, 64_000, 100_000, 100, 4096},
		{"ALLOW-13", config.LongContext, 64_000, 100_000, 4095, 4096},
		{"ALLOW-14", config.Graphics, 64_000, 100_000, 4095, 4096},
		{"ALLOW-13", config.LongContext, 64_000, 100_000, 4096, 4096},
		{"ALLOW-15", config.Graphics, 64_000, 100_000, 6000, 6000},
		{"ALLOW-15", config.LongContext, 5000, 100_000, 6000, 5000},
		{"ALLOW-16", "", 64_000, 100_000, 100, 100},
		{"ALLOW-17", config.LongContext, 64_000, 1000, none, 1000},
		{"ALLOW-17", config.Graphics, 64_000, 100_000, none, 32_768},
		{"ALLOW-14 GAP-35", config.Graphics, 2048, 100_000, 100, 2048},
		{"ALLOW-13 GAP-35", config.LongContext, 64_000, 1000, 100, 1000},
		{"ALLOW-13 GAP-35", config.LongContext, 64_000, 100, 100, 100},
	} {
		t.Run(fmt.Sprintf("%s %s limit %d room %d given %d", tt.clause, tt.specialty, tt.limit, tt.room, tt.given),
			func(t *testing.T) {
				t.Parallel()
				r := kept("only", 50_000+tt.room, tt.specialty)
				if tt.specialty == "" {
					r.Specialty = nil
				}
				r.MaxOutput = tt.limit
				it, err := routing.MakeItinerary(routing.Input{Routes: []config.Route{r}, InputTokens: 50_000, Allowance: tt.given})
				require.NoError(t, err)
				require.Equal(t, tt.sent, it.Candidates[0].Allowance)
			})
	}
	t.Run("GAP-35 fit is judged before the raise", func(t *testing.T) {
		t.Parallel()
		_, err := routing.MakeItinerary(routing.Input{Routes: []config.Route{kept("only", 50_000, config.Graphics)},
			InputTokens: 49_000, Allowance: 1001})
		require.ErrorIs(t, err, routing.ErrTooLarge)
	})
}

// TestSpecialties proves GAP-37: which routes serve which kinds of requests, and in which order.
func TestSpecialties(t *testing.T) {
	t.Parallel()
	plain := route("plain", 0.5, 1)
	plain.ContextWindow = 32_000
	toolless := kept("toolless", 100_000, config.Graphics)
	toolless.Tools = false
	drawing, long := kept("drawing", 100_000, config.Graphics), kept("long", 400_000, config.LongContext)
	both := kept("both", 400_000, config.LongContext, config.Graphics)
	for _, tt := range []struct {
		name     string
		routes   []config.Route
		in       routing.Input
		order    []string
		reserved []string
	}{
		{"an ordinary request", []config.Route{drawing, long, plain}, routing.Input{InputTokens: 100},
			[]string{"plain"}, []string{"drawing", "long"}},
		{"graphics", []config.Route{plain, long, drawing}, routing.Input{InputTokens: 100, Graphics: true},
			[]string{"drawing", "plain"}, []string{"long"}},
		{"graphics that fit no graphics route", []config.Route{plain, kept("tiny", 50, config.Graphics)},
			routing.Input{InputTokens: 100, Graphics: true}, []string{"plain"}, nil},
		{"graphics that need tools", []config.Route{plain, toolless},
			routing.Input{InputTokens: 100, Graphics: true, Needs: routing.Needs{Tools: true}}, []string{"plain"}, nil},
		{"fits no ordinary route", []config.Route{plain, drawing, long}, routing.Input{InputTokens: 50_000},
			[]string{"long"}, []string{"drawing"}},
		{"the allowance makes it long", []config.Route{plain, long}, routing.Input{InputTokens: 100, Allowance: 40_000},
			[]string{"long"}, nil},
		{"above the threshold", []config.Route{plain, long}, routing.Input{InputTokens: 900, Allowance: 101, LongAbove: 1000},
			[]string{"long", "plain"}, nil},
		{"at the threshold", []config.Route{plain, long}, routing.Input{InputTokens: 900, Allowance: 100, LongAbove: 1000},
			[]string{"plain"}, []string{"long"}},
		{"a default allowance is not counted", []config.Route{plain, long}, routing.Input{InputTokens: 900, LongAbove: 1000},
			[]string{"plain"}, []string{"long"}},
		{"long and graphics", []config.Route{plain, long, both, drawing},
			routing.Input{InputTokens: 1001, Graphics: true, LongAbove: 1000}, []string{"both", "long", "drawing", "plain"},
			nil},
		{"long, and graphics is no matter", []config.Route{plain, long, both, drawing},
			routing.Input{InputTokens: 1001, LongAbove: 1000}, []string{"long", "both", "plain"}, []string{"drawing"}},
		{"nothing else fits", []config.Route{plain, drawing}, routing.Input{InputTokens: 50_000}, []string{"drawing"}, nil},
		{"nothing else offers tools", []config.Route{{Name: "dumb", ContextWindow: 1000, MaxOutput: 10}, drawing},
			routing.Input{InputTokens: 100, Needs: routing.Needs{Tools: true}}, []string{"drawing"}, nil},
		{"no ordinary route at all", []config.Route{drawing}, routing.Input{InputTokens: 100}, []string{"drawing"}, nil},
	} {
		t.Run("GAP-37 "+tt.name, func(t *testing.T) {
			t.Parallel()
			in := tt.in
			in.Routes = tt.routes
			it, err := routing.MakeItinerary(in)
			require.NoError(t, err)
			require.Equal(t, tt.order, order(it))
			var reserved []string
			for _, r := range it.Rejected {
				if errors.Is(r.Why, routing.ErrReserved) {
					reserved = append(reserved, r.Route.Name)
				}
			}
			require.Equal(t, tt.reserved, reserved)
		})
	}
	t.Run("GAP-37 GAP-39 a route that is away does not open the others", func(t *testing.T) {
		t.Parallel()
		_, err := routing.MakeItinerary(routing.Input{Routes: []config.Route{plain, drawing}, InputTokens: 100,
			Standing: where(func(r *config.Route) bool { return r.Name != "plain" })})
		require.ErrorIs(t, err, routing.ErrNotReady)
	})
}

func TestGraphics(t *testing.T) {
	t.Parallel()
	cfg := &config.Config{Routes: []config.Route{kept("drawing", 1000, config.Graphics)}}
	cfg.Special.Graphics = config.NewTerms([]string{"svg", "3d scene"})
	say := func(role llm.Role, texts ...string) llm.Message {
		m := llm.Message{Role: role}
		for _, text := range texts {
			m.Parts = append(m.Parts, llm.Text(text))
		}
		return m
	}
	for _, tt := range []struct {
		name     string
		messages []llm.Message
		want     bool
	}{
		{"the user asks", []llm.Message{say(llm.RoleUser, "Draw an SVG")}, true},
		{"in a later part", []llm.Message{say(llm.RoleUser, "Draw ", "a 3D scene")}, true},
		{"the assistant and a tool said more since", []llm.Message{say(llm.RoleUser, "an svg"), say(llm.RoleAssistant, "ok"),
			say(llm.RoleTool, "done")}, true},
		{"an earlier wish", []llm.Message{say(llm.RoleUser, "an svg"), say(llm.RoleAssistant, "ok"),
			say(llm.RoleUser, "thanks")}, false},
		{"the system prompt", []llm.Message{say(llm.RoleSystem, "You write svg"), say(llm.RoleUser, "hello")}, false},
		{"the assistant", []llm.Message{say(llm.RoleUser, "hello"), say(llm.RoleAssistant, "svg?")}, false},
		{"an empty last message", []llm.Message{say(llm.RoleUser, "an svg"), say(llm.RoleUser, "")}, true},
		{"nobody", nil, false},
	} {
		t.Run("GAP-37 "+tt.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tt.want, routing.Graphics(cfg, &llm.Request{Messages: tt.messages}))
		})
	}
	t.Run("GAP-37 no route is kept for graphics", func(t *testing.T) {
		t.Parallel()
		plain := &config.Config{Routes: []config.Route{route("plain", 0.5, 1)}, Special: cfg.Special}
		require.False(t, routing.Graphics(plain, &llm.Request{Messages: []llm.Message{say(llm.RoleUser, "an svg")}}))
	})
}
