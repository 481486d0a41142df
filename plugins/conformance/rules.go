package conformance

// rules are what the gateway relies on. Their ids stay; a later version may have more of them. LIMIT in a text is the
// time limit of the run.
func rules() []rule {
	return []rule{
		// --- the process
		{id: "by-hand", process: true, check: byHand,
			text:   "Started by hand, it says what it is and exits with a status other than 0.",
			advice: "Without the variable FAREWAY_PROVIDER_PLUGIN: print a sentence to stderr and exit with 1."},
		{id: "handshake", process: true, check: handshake,
			text: "Its first line on stdout, within LIMIT, is the handshake, and who has the gateway's certificate can " +
				"connect.",
			advice: "Print nothing before the line 1|1|unix|PATH|grpc|CERT, described at the top of provider.proto, and " +
				"flush it."},
		{id: "versions", process: true, after: "handshake", check: versions,
			text:   "Of the versions that a later gateway speaks, it chooses its own.",
			advice: "Choose from PLUGIN_PROTOCOL_VERSIONS, and put what you chose in the second place of the handshake."},
		{id: "mutual-tls", process: true, after: "handshake", check: mutualTLS,
			text:   "It answers nobody who lacks the gateway's certificate.",
			advice: "Require a client certificate, and trust the one in PLUGIN_CLIENT_CERT only."},
		{id: "health-service", process: true, after: "handshake", check: healthService,
			text:   `The service "plugin" of grpc.health.v1.Health is SERVING.`,
			advice: "Serve grpc.health.v1.Health; most gRPC libraries have it."},
		{id: "signals", process: true, after: "handshake", check: signals,
			text: "SIGTERM and SIGINT do not end it: they may reach it before the gateway has drained.",
			advice: "Catch both and do nothing. The gateway ends the process by plugin.GRPCController/Shutdown, " +
				"or by SIGKILL."},
		{id: "shutdown", process: true, after: "handshake", check: shutdown,
			text:   "It exits within LIMIT of plugin.GRPCController/Shutdown.",
			advice: "Serve plugin.GRPCController with the method Shutdown, answer it, and exit with status 0."},
		{id: "orphan", process: true, after: "handshake", check: orphan,
			text:   "It exits within LIMIT of its gateway's death.",
			advice: "Compare your parent's process id with FAREWAY_HOST_PID once a second; exit when they differ."},

		// --- what it says of itself
		{id: "describe", after: "handshake", check: describe,
			text:   "Describe answers without settings, and the same each time.",
			advice: "Answer from constants, before Configure too."},
		{id: "schema", after: "describe", check: schema,
			text:   "The settings that it takes can be read from a configuration file.",
			advice: "See Schema in provider.proto."},
		{id: "documented", after: "describe", check: documented,
			text: "Each setting is documented, with its default.",
			advice: "Write a doc for it (effect, unit, danger); where it may be left out and is no secret, also " +
				"\"Default: ...\"."},
		{id: "capabilities", after: "describe", check: capabilities,
			text: "Its capabilities are the calls that it serves.",
			advice: "Claim what you serve: the gateway calls nothing else. Answer others with UNIMPLEMENTED, as gRPC " +
				"libraries do by themselves."},

		// --- settings
		{id: "unconfigured", after: "describe", check: unconfigured,
			text: "An attempt before Configure ends with a failure of kind PROTOCOL as its last event, and status OK.",
			advice: "Send what is wrong as a Failure in the stream; a status other than OK says that the provider itself " +
				"broke."},
		{id: "large", after: "describe", check: large,
			text:   "A request of 16 MiB arrives.",
			advice: "Let your gRPC server receive messages of up to 64 MiB; the default of most libraries is 4 MiB."},
		{id: "setting-unknown", after: "describe", check: settingUnknown,
			text:   "A setting that it does not have is refused by name.",
			advice: "Answer Configure with an error that names the setting."},
		{id: "configure", after: "describe", check: configure,
			text:   "With the settings of this test, it is configured and healthy.",
			advice: "Give valid settings (--settings), or see what the provider says of them."},
		{id: "secrets", after: "describe", check: secrets,
			text:   "No secret of its settings is repeated, in no error and in no output.",
			advice: "Say what is wrong with a setting by its name, and take upstreams' words only without your credentials."},

		// --- replies
		{id: "unknown-fields", after: "configure", check: unknownFields,
			text:   "Fields and metadata of a later gateway are ignored.",
			advice: "Read messages with code generated from provider.proto, which skips what it does not know."},
		{id: "reply", after: "configure", check: reply,
			text: "A reply has its events in order, text, and a finish as its last one.",
			advice: "accepted, then text, reasoning, tool_call, tool_arguments, tool_end, usage and reference, then one " +
				"finish; then the stream ends with status OK."},
		{id: "usage", after: "reply", check: usage,
			text: "A reply says what it used, of input and output.",
			advice: "Send usage before finish, as the upstream reported it, and estimated only where estimate_usage asks " +
				"for that. For an upstream that never reports it: --no-usage."},
		{id: "usage-disjoint", after: "usage", check: usageDisjoint,
			text:   "What an upstream's cache held is not counted twice.",
			advice: "input is the prompt less cache_read and cache_write; many upstreams report the whole of it."},
		{id: "carried", after: "configure", check: carried,
			text:   "By its Endpoint, the gateway gets the same kind of reply.",
			advice: "See Endpoint in provider.proto."},
		{id: "everything", after: "reply", check: everything,
			text: "A request with everything in it (system, tools, past calls, stops, temperature) is answered, or refused " +
				"by a failure.",
			advice: "Leave out what the upstream cannot take, or send a Failure of kind REJECTED."},
		{id: "concurrent", after: "reply", check: concurrent,
			text:   "Eight attempts at a time are each answered, and Health between them.",
			advice: "Keep nothing of an attempt outside of it, and block nothing that all of them need."},
		{id: "abandoned", after: "reply", check: abandoned,
			text:   "Callers who leave in mid-reply take nothing with them.",
			advice: "When a call is cancelled: stop its upstream call, and go on serving."},
		{id: "optional", after: "configure", check: optional,
			text:   "The optional calls that it claims answer.",
			advice: "See CountTokens, Receipts, Models, Screen, Predict and Cancel in provider.proto."},
	}
}
