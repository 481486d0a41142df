package reply

import "github.com/fareway/fareway/plugins/llm"

// How the table says it in few letters.
const (
	content    = llm.ErrPolicy
	window     = llm.ErrContext
	allowance  = llm.ErrAllowance
	key        = llm.ErrCredentials
	quota      = llm.ErrQuota
	capacity   = llm.ErrCapacity
	tooMany    = llm.ErrUnfit // tools, messages, images: a route whose upstream takes more can serve it
	cannotTake = llm.ErrRejected
	failure    = llm.ErrUpstream
)

// byWord is a row for a word for machines: a code, a type, a status, a reason or the name of an exception. word is a
// part of it in lower case without what sets its words apart (`contextlength` for context_length_exceeded), or, behind
// "=", the whole.
type byWord struct {
	word string
	kind llm.ErrorKind
	note string // what else the operator should know
}

// byWording is a row for a message. wording is how it begins, see compile.
type byWording struct {
	wording string
	kind    llm.ErrorKind
	note    string
}

// words are the telling ones, which decide before any wording. Who may not call at all comes first, then who has not
// paid, for such messages go on about the request.
var words = []byWord{
	{"invalidapikey", key, ""},          // OpenAI, Azure, and who follows them
	{"incorrectapikey", key, ""},        // xAI
	{"apikeyinvalid", key, ""},          // google.rpc.ErrorInfo: API_KEY_INVALID; relays
	{"apikeyexpired", key, ""},          // google.rpc.ErrorInfo
	{"apikeyservice", key, ""},          // google.rpc.ErrorInfo: API_KEY_SERVICE_BLOCKED
	{"apikeyhttpreferrer", key, ""},     // google.rpc.ErrorInfo
	{"apikeyipaddress", key, ""},        // google.rpc.ErrorInfo
	{"apikeyandroidapp", key, ""},       // google.rpc.ErrorInfo
	{"apikeyiosapp", key, ""},           // google.rpc.ErrorInfo
	{"credentialsmissing", key, ""},     // google.rpc.ErrorInfo
	{"accesstokenexpired", key, ""},     // google.rpc.ErrorInfo
	{"accountdeactivated", key, ""},     // OpenAI
	{"accountdisabled", key, ""},        // OpenAI; google.rpc.ErrorInfo: ACCOUNT_STATE_INVALID's kin
	{"accountsuspended", key, ""},       // Fireworks, Novita
	{"consumersuspended", key, ""},      // google.rpc.ErrorInfo: the project
	{"organizationrestricted", key, ""}, // Groq
	{"organizationdisabled", key, ""},   // Anthropic through proxies
	{"organizationsuspended", key, ""},  // OpenAI
	{"unrecognizedclient", key, ""},     // AWS, "Common errors"
	{"invalidsignature", key, ""},       // AWS
	{"signaturedoesnotmatch", key, ""},  // AWS
	{"incompletesignature", key, ""},    // AWS
	{"expiredtoken", key, ""},           // AWS
	{"missingauthenticationtoken", key, ""},
	{"invalidclienttokenid", key, ""},
	{"optinrequired", key, ""},      // AWS
	{"unsupportedcountry", key, ""}, // OpenAI: unsupported_country_region_territory
	{"=1000", key, ""},              // Zhipu, "Error codes": authentication
	{"=1001", key, ""},
	{"=1002", key, ""},
	{"=1003", key, ""},
	{"=1004", key, ""},
	{"minimax1004", key, ""},
	{"minimax2049", key, ""},
	{"=1112", key, ""},            // Zhipu: the account is locked
	{"accessterminated", key, ""}, // Moonshot: access_terminated_error

	{"insufficientquota", quota, ""},    // OpenAI
	{"currentquota", quota, ""},         // Moonshot: exceeded_current_quota_error
	{"billing", quota, ""},              // Anthropic billing_error; OpenAI billing_hard_limit_reached, billing_not_active
	{"insufficientbalance", quota, ""},  // MiniMax, relays
	{"insufficientcredit", quota, ""},   // Together, relays
	{"insufficientfunds", quota, ""},    // relays
	{"notenoughbalance", quota, ""},     // Novita
	{"usagelimitreached", quota, ""},    // ChatGPT
	{"usageexhausted", quota, ""},       // Grok: subscription:free-usage-exhausted
	{"arrearage", quota, ""},            // DashScope
	{"accountoverdue", quota, ""},       // Volcengine
	{"setlimitexceeded", quota, ""},     // Volcengine
	{"freetieronly", quota, ""},         // DashScope: AllocationQuota.FreeTierOnly
	{"budgetexceeded", quota, ""},       // LiteLLM
	{"exceededbudget", quota, ""},       // LiteLLM
	{"servicequotaexceeded", quota, ""}, // AWS
	{"minimax1008", quota, ""},
	{"minimax2056", quota, ""},
	{"=1113", quota, ""}, // Zhipu

	{"contentfilter", content, ""},       // Azure, Moonshot
	{"contentpolicy", content, ""},       // OpenAI, LiteLLM
	{"moderation", content, ""},          // OpenAI, OpenRouter
	{"responsibleai", content, ""},       // Azure's inner error
	{"invalidprompt", content, ""},       // OpenAI, reasoning models
	{"biopolicy", content, ""},           // OpenAI
	{"cyberpolicy", content, ""},         // OpenAI
	{"policyviolation", content, ""},     // OpenAI, Azure, LiteLLM
	{"datainspection", content, ""},      // DashScope
	{"sensitivecontent", content, ""},    // Volcengine: InputTextSensitiveContentDetected
	{"prohibitedcontent", content, ""},   // Gemini through proxies
	{"contentflagged", content, ""},      // relays
	{"guardrailintervened", content, ""}, // Bedrock
	{"minimax1026", content, ""},
	{"minimax1027", content, ""},
	{"=1301", content, ""}, // Zhipu

	{"contextlength", window, ""},   // OpenAI and who follows it
	{"contextsize", window, ""},     // llama.cpp
	{"contextwindow", window, ""},   // LiteLLM, Ollama
	{"requesttoolarge", window, ""}, // Anthropic: 413
	{"prompttoolong", window, ""},
	{"inputtoolong", window, ""},
	{"maxprompttokens", window, ""}, // Copilot
	{"maxtokenlimit", window, ""},   // relays
	{"=1261", window, ""},           // Zhipu

	{"tokenslimitreached", allowance, ""}, // GitHub Models

	{"arrayabovemaxlength", tooMany, ""}, // OpenAI, Azure

	{"modelnotready", capacity, "the model is being made ready, which takes minutes"}, // Bedrock
	{"requestquotaexceeded", capacity, ""},                                            // Cerebras: a rate
	{"tokenquotaexceeded", capacity, ""},                                              // Cerebras: a rate
	{"overloaded", capacity, ""},                                                      // Anthropic, OpenAI, Moonshot, Groq
	{"capacityexceeded", capacity, ""},                                                // Groq's 498
	{"capacityexhausted", capacity, ""},                                               // Code Assist
	{"slowdown", capacity, ""},                                                        // OpenAI, 503
	{"ratelimitreached", capacity, ""},                                                // Moonshot
	{"minimax1002", capacity, ""},                                                     // MiniMax, in base_resp
	{"minimax1039", capacity, ""},
	{"minimax1041", capacity, ""},
	{"=1302", capacity, ""}, // Zhipu
	{"=1303", capacity, ""},
	{"=1305", capacity, ""},
}

// weakWords say what the status says, or what many things are called. They decide where no wording does.
var weakWords = []byWord{
	{"ratelimit", capacity, ""},
	{"throttl", capacity, ""}, // AWS
	{"toomanyrequests", capacity, ""},
	{"toomanytokens", capacity, ""},            // Cerebras
	{"resourceexhausted", capacity, ""},        // google.rpc.Code
	{"resourcehasbeenexhausted", capacity, ""}, // xAI

	{"authentication", key, ""},
	{"autherror", key, ""}, // LiteLLM
	{"unauthorized", key, ""},
	{"unauthenticated", key, ""}, // google.rpc.Code
	{"permission", key, ""},
	{"failedprecondition", key, ""}, // google.rpc.Code: no billing, or not from here
	{"accessdenied", key, "the account needs access to the model, and its policy " +
		"bedrock:InvokeModelWithResponseStream"}, // AWS, where it is the only one

	{"invalidargument", cannotTake, ""}, // google.rpc.Code
	{"outofrange", cannotTake, ""},
	{"unimplemented", cannotTake, ""},
	{"invalidrequest", cannotTake, ""},
	{"badrequest", cannotTake, ""},
	{"notfound", cannotTake, ""},
	{"validation", cannotTake, ""}, // AWS, FastAPI
	{"conflict", cannotTake, ""},   // AWS
	{"unsupported", cannotTake, ""},

	{"modelerror", failure, ""}, // AWS: 424
	{"modelstreamerror", failure, ""},
	{"modeltimeout", failure, ""},
	{"deadlineexceeded", failure, ""}, // google.rpc.Code
}

// wordings are for what a service says nowhere else. They are made of what it says itself, and looked for where
// nothing that a client wrote stands.
var wordings = []byWording{
	// Who may not call. "Content violates" of xAI names team and key, and is about the content.
	{"content violates usage guidelines", content, ""},             // xAI: 403
	{"api key not valid", key, ""},                                 // Gemini, also through its chat endpoint: 400
	{"api key not found", key, ""},                                 // Gemini
	{"api key expired", key, ""},                                   // Gemini
	{"api keys are not supported by this api", key, ""},            // Vertex
	{"incorrect api key provided", key, ""},                        // OpenAI, xAI: 400
	{"invalid api key", key, ""},                                   // relays
	{"invalid api-key provided", key, ""},                          // DashScope
	{"invalid x-api-key", key, ""},                                 // Anthropic
	{"this key is associated with a deactivated account", key, ""}, // OpenAI
	{"the openai account associated with this api key has been deactivated", key, ""},
	{"your openai account has been deactivated", key, ""},
	{"this organization has been disabled", key, ""}, // Anthropic: 400
	{"your organization has been disabled", key, ""},
	{"this organization has been suspended", key, ""},
	{"your organization has been suspended", key, ""},
	{"organization has been restricted", key, ""}, // Groq: 400
	{"your account has been ~suspended", key, ""},
	{"your account has been ~disabled", key, ""},
	{"your account has been locked", key, ""},                  // Zhipu
	{"account * is suspended", key, ""},                        // Fireworks: 412
	{"your account * is suspended", key, ""},                   // Moonshot
	{"user location is not supported", key, ""},                // Gemini: 400
	{"country, region, or territory not supported", key, ""},   // OpenAI
	{"access denied due to invalid subscription key", key, ""}, // Azure
	{"authentication failed", key, ""},
	{"authentication token expired", key, ""},
	{"your organization must be verified to", key, ""}, // OpenAI: 400
	{"you dont have access to the model", key, ""},     // Bedrock

	// Who has not paid.
	{"your credit balance is too low", quota, ""},                   // Anthropic: 400
	{"you have reached your specified api usage limits", quota, ""}, // Anthropic: 400
	{"you have reached your specified workspace api usage limits", quota, ""},
	{"your team * has either used all available credits", quota, ""}, // xAI: 429
	{"your newly created team doesnt have any credits", quota, ""},   // xAI: 403
	{"~used all available credits", quota, ""},
	{"you have run out of credits", quota, ""},  // Grok: 403
	{"key limit exceeded", quota, ""},           // OpenRouter: 403
	{"api key credit limit reached", quota, ""}, // OpenRouter
	{"api key usd spend limit exceeded", quota, ""},
	{"insufficient credits", quota, ""},         // OpenRouter
	{"insufficient balance", quota, ""},         // DeepSeek, MiniMax, Z.ai
	{"insufficient account balance", quota, ""}, // relays
	{"your account balance is ~insufficient", quota, ""},
	{"your account * is not active", quota, ""},                // Moonshot: 403
	{"your account is in arrears", quota, ""},                  // Zhipu
	{"your account balance is not enough", quota, ""},          // relays
	{"余额不足", quota, ""},                                        // Zhipu, relays
	{"您的账户已欠费", quota, ""},                                     // Zhipu
	{"you * have reached your session usage limit", quota, ""}, // Ollama's cloud: 429
	{"you * have reached your weekly usage limit", quota, ""},
	{"youve reached your * usage limit", quota, ""},
	{"you have exceeded your monthly included credits", quota, ""}, // Hugging Face
	{"you have no quota", quota, ""},                               // Copilot
	{"quota exceeded and account balance is", quota, ""},           // Chutes
	{"exceededbudget", quota, ""},
	{"no deployments available - crossed budget", quota, ""},
	{"the selected model requires paid balance", quota, ""},                           // SiliconFlow: 403
	{"your request exceeds the service quota", quota, ""},                             // Bedrock: 400
	{"you are using a trial key, which is limited to # api calls / month", quota, ""}, // Cohere: 429
	{"you have used up your daily free allocation", quota, ""},                        // Cloudflare: 429
	{"not enough balance", quota, ""},                                                 // Novita
	{"budget has been exceeded", quota, ""},                                           // LiteLLM
	{"access denied, please make sure your account is in good standing", quota, ""},   // DashScope
	{"too many tokens per day", quota, ""},                                            // Bedrock: 429
	{"too many requests per day", quota, ""},                                          // Bedrock

	// The content.
	{"this request has been blocked by our content filters", content, ""}, // Bedrock: 400
	{"message is being blocked for reason", content, ""},                  // NextChat
	{"content exists risk", content, ""},                                  // DeepSeek
	{"output blocked by content", content, ""},                            // Anthropic: 400
	{"~content filtering policy", content, ""},
	{"~content management policy", content, ""}, // Azure
	{"~usage policies", content, ""},
	{"~violates our usage policy", content, ""},
	{"invalid prompt: your prompt was flagged", content, ""}, // OpenAI
	{"invalid prompt: weve limited access", content, ""},     // OpenAI
	{"your request was flagged", content, ""},                // OpenAI
	{"your input was flagged", content, ""},                  // OpenRouter
	{"your prompt was flagged", content, ""},
	{"the input was flagged", content, ""},
	{"input was flagged", content, ""},
	{"the prompt was flagged", content, ""},
	{"this content was flagged", content, ""}, // OpenAI: cyber_policy
	{"the request was flagged", content, ""},
	{"~safety measures that flagged", content, ""},                                  // Anthropic
	{"your chosen model requires moderation", content, ""},                          // OpenRouter: 403
	{"* requires moderation", content, ""},                                          // OpenRouter: 403
	{"the request is prohibited due to a violation of provider terms", content, ""}, // OpenRouter: 403
	{"moderation block", content, ""},                                               // Xiaomi
	{"your request was rejected as a result of our safety system", content, ""},     // OpenAI
	{"the request was rejected because it was considered high risk", content, ""},   // Moonshot
	{"~inappropriate content", content, ""},                                         // DashScope
	{"input data may contain", content, ""},                                         // DashScope
	{"output data may contain", content, ""},
	{"系统检测到输入或生成内容可能包含", content, ""},                                                // Zhipu
	{"system detected potentially unsafe", content, ""},                              // Zhipu
	{"the request failed because the input text may contain sensitive", content, ""}, // Volcengine
	{"input new_sensitive", content, ""},                                             // MiniMax
	{"output new_sensitive", content, ""},                                            // MiniMax
	{"input content flagged", content, ""},
	{"the response was filtered", content, ""}, // Azure
	{"your request was blocked by ~guardrail", content, ""},

	// Larger than what is left of a rate or of credit, whoever waits.
	{"request too large for ~ on tokens per", allowance, ""}, // OpenAI 429, Groq 413
	{"request too large for", allowance, ""},
	{"this request requires more credits, or fewer max_tokens", allowance, ""}, // OpenRouter: 402
	{"more credits are required to run this request", allowance, ""},           // OpenRouter: 402
	{"prompt tokens limit exceeded", allowance, ""},                            // OpenRouter: 402
	{"~but can only afford", allowance, ""},
	{"request body too large for * model", allowance, ""},         // GitHub Models: 413
	{"extra usage is required for long context", allowance, ""},   // Anthropic: 429
	{"the long context beta is not yet available", allowance, ""}, // Anthropic: 400, by the account's tier

	// Longer than the model takes.
	{"prompt is too long", window, ""}, // Anthropic
	{"prompt too long", window, ""},    // Ollama's cloud, Kimi
	{"input is too long", window, ""},  // Bedrock
	{"input is longer than", window, ""},
	{"~prompt is too long", window, ""}, // Vertex, Nova
	{"~input is too long", window, ""},
	{"input length and `max_tokens` exceed context limit", window, ""}, // Anthropic
	{"request size exceeds model context window", window, ""},          // Anthropic: 413
	{"request exceeds the maximum size", window, ""},                   // Anthropic: 413
	{"~maximum context length", window, ""},                            // OpenAI, vLLM, DeepSeek, OpenRouter
	{"~models context length", window, ""},                             // SGLang
	{"~maximum model length", window, ""},                              // vLLM: longer than the maximum model length
	{"~max model len", window, ""},                                     // vLLM
	{"~maximum prompt length", window, ""},                             // xAI
	{"~maximum input length", window, ""},
	{"~maximum sequence length", window, ""},
	{"~maximum allowed length", window, ""}, // SGLang
	{"~max_seq_len", window, ""},            // SiliconFlow
	{"~maximum supported sequence length", window, ""},
	{"requested generation length # is not possible", window, ""}, // SambaNova
	{"~maximum number of tokens allowed", window, ""},             // Gemini
	{"~maximum number of input tokens", window, ""},               // Bedrock
	{"~maximum number of tokens", window, ""},                     // Vertex, Nova
	{"~exceeds the maximum token", window, ""},
	{"the input token count", window, ""},                  // Gemini
	{"request payload size exceeds the limit", window, ""}, // Gemini
	{"maximum request body size", window, ""},              // Google's front end: 413
	{"~model token limit", window, ""},                     // Kimi
	{"~models token limit", window, ""},
	{"~token limit of the model", window, ""},
	{"input tokens exceed the configured limit", window, ""}, // OpenAI
	{"input exceeds the context window", window, ""},         // OpenAI
	{"~exceeds the context window", window, ""},              // OpenAI responses
	{"~exceed context window", window, ""},                   // llama-cpp-python
	{"~exceed the context window", window, ""},
	{"~context window exceeds limit", window, ""}, // MiniMax
	{"~context window of", window, ""},
	{"~exceeds model context", window, ""},
	{"~longer than the context", window, ""},
	{"~longer than the model", window, ""},
	{"~larger than the context", window, ""},
	{"~too long for the context", window, ""},
	{"~too large for the context", window, ""},
	{"~too long for this model", window, ""},
	{"~too long for the model", window, ""},
	{"~does not fit the context", window, ""},
	{"~does not fit in the context", window, ""},
	{"~available context size", window, ""}, // llama.cpp
	{"~exceeds the context size", window, ""},
	{"~exceeds context size", window, ""},
	{"~exceeds the context length", window, ""},
	{"~exceed the context length", window, ""},
	{"~exceed context length", window, ""},
	{"~exceeds context length", window, ""},
	{"~exceeds the available context", window, ""},
	{"~exceed context limit", window, ""},
	{"~exceeds the model context", window, ""},
	{"context size has been exceeded", window, ""}, // llama.cpp
	{"context length exceeded", window, ""},
	{"context window exceeded", window, ""},
	{"~exceed n_ctx", window, ""},                                                        // llama-box
	{"illegal param: prefill # tokens exceed", window, ""},                               // llama-box
	{"cannot truncate prompt with n_keep", window, ""},                                   // LM Studio
	{"trying to keep the first # tokens when context", window, ""},                       // LM Studio
	{"the number of tokens to keep from the initial prompt is greater than", window, ""}, // LM Studio
	{"`inputs` tokens + `max_new_tokens` must be <=", window, ""},                        // TGI
	{"`inputs` must have less than", window, ""},                                         // TGI
	{"range of input length should be", window, ""},                                      // DashScope
	{"~range of input length should be", window, ""},
	{"too many tokens: total number of tokens", window, ""},     // Cohere
	{"too many tokens: size limit exceeded", window, ""},        // Cohere
	{"too many input tokens", window, ""},                       // Bedrock
	{"max_tokens must be at least 1, got -#", window, ""},       // vLLM: what is left of the window
	{"malformed input request: expected maxlength", window, ""}, // Bedrock
	{"# validation error detected: value at 'body' failed to satisfy constraint: member must have length less", window,
		""}, // Bedrock
	{"input length # exceeds the maximum length", window, ""}, // Volcengine
	{"model max length exceeded", window, ""},                 // Moonshot
	{"the sum of prompt length", window, ""},                  // TensorRT-LLM: "... should not exceed max_num_tokens"
	{"prompt exceeds max length", window, ""},                 // Zhipu
	{"prompt token count of # exceeds the limit", window, ""}, // Copilot
	{"prompt contains # tokens", window, ""},                  // Mistral: "... too large for model with # maximum context"
	{"prompt length exceeds", window, ""},
	{"total tokens of image and text exceed max message tokens", window, ""}, // Volcengine
	{"please reduce the length of the messages", window, ""},                 // Groq, Cerebras
	{"~reduce the length of the messages or completion", window, ""},

	// More of something than the upstream takes, however short it is.
	{"invalid '*': array too long", tooMany, ""},                      // OpenAI, Azure, Copilot
	{"'*' : maximum number of items is #", tooMany, ""},               // Groq
	{"maximum tools limit reached", tooMany, ""},                      // xAI
	{"too many strict tools", tooMany, ""},                            // Anthropic, Bedrock
	{"the compiled grammar is too large", tooMany, ""},                // Anthropic, of strict tools
	{"schemas contains too many", tooMany, ""},                        // Anthropic, of strict tools
	{"a maximum of # blocks with cache_control", tooMany, ""},         // Anthropic
	{"a maximum of # blocks with `cache_control`", tooMany, ""},       // Anthropic
	{"too many images", tooMany, ""},                                  // Anthropic, Azure, relays
	{"messages: too many images", tooMany, ""},                        // Bedrock
	{"too much media", tooMany, ""},                                   // Anthropic
	{"you cant include more than # documents", tooMany, ""},           // Bedrock
	{"request contains # images, exceeding the maximum", tooMany, ""}, // OpenCode
	{"at most # image(s) may be provided in one", tooMany, ""},        // vLLM
	{"the generatecontentrequest proto is invalid:\n* * [field_invalid] at most # function declarations", tooMany,
		""}, // Gemini
	{"length of stop (~) exceeds the limit", tooMany, ""}, // FastDeploy
	{"list should have at most # items", tooMany, ""},     // pydantic, behind which FastAPI's services stand
	{"ensure this value has at most # items", tooMany, ""},

	// No room at the moment.
	{"rate limit reached for", capacity, ""}, // OpenAI, Groq
	{"rate limit exceeded", capacity, ""},
	{"this request would exceed ~ rate limit", capacity, ""},           // Anthropic
	{"overloaded", capacity, ""},                                       // Anthropic
	{"the engine is currently overloaded", capacity, ""},               // OpenAI, Moonshot
	{"that model is currently overloaded", capacity, ""},               // OpenAI
	{"our servers are currently overloaded", capacity, ""},             // OpenAI
	{"the model is overloaded", capacity, ""},                          // Gemini
	{"this model is currently experiencing high demand", capacity, ""}, // Gemini: 503
	{"model is overloaded", capacity, ""},                              // TGI
	{"~model is overloaded", capacity, ""},
	{"~server is overloaded", capacity, ""}, // Together
	{"~service overloaded", capacity, ""},
	{"~currently overloaded", capacity, ""},
	{"service temporarily overloaded", capacity, ""},            // Zen
	{"the ai service is temporarily overloaded", capacity, ""},  // Codex: 503
	{"server overloaded", capacity, ""},                         // Ollama's cloud: 503
	{"no capacity available for model", capacity, ""},           // Code Assist: 503
	{"upstream error from *: resourceexhausted", capacity, ""},  // OpenRouter, of Nvidia
	{"service is too busy", capacity, ""},                       // DeepSeek: 503
	{"bedrock is unable to process your request", capacity, ""}, // 503
	{"~ is temporarily rate-limited", capacity, ""},             // OpenRouter
	{"no instances available", capacity, ""},                    // OpenRouter: 503
	{"service tier capacity exceeded", capacity, ""},            // Mistral
	{"flex tier capacity exceeded", capacity, ""},               // Groq: 498
	{"loading model", capacity, ""},                             // llama.cpp: 503
	{"model * is currently loading", capacity, ""},              // Hugging Face: 503
	{"the model is currently loading", capacity, ""},
	{"model is loading", capacity, ""},
	{"server busy, please try again", capacity, // Ollama: 503
		"Ollama's queue is full; OLLAMA_MAX_QUEUE is how many requests may wait in it"},
	{"too many requests", capacity, ""},
	{"too many tokens, please wait", capacity, ""}, // Bedrock

	// What the route cannot take, where the status says that it failed (llama.cpp), or where the operator can mend it.
	{"~ does not support tools", cannotTake, "the model takes no tools; leave tools out of the route's offers"}, // Ollama
	{"no endpoints found that support tool use", cannotTake,
		"the model takes no tools; leave tools out of the route's offers"}, // OpenRouter
	{"unsupported param", cannotTake, ""},                                           // llama.cpp: 500
	{"tools param requires --jinja", cannotTake, "start llama-server with --jinja"}, // llama.cpp: 500
	{"failed to parse messages", cannotTake, ""},                                    // llama.cpp: 500
	{"failed to parse tools", cannotTake, ""},
	{"failed to parse grammar", cannotTake, ""},
	{"failed to initialize samplers", cannotTake, ""},
	{"error parsing grammar", cannotTake, ""},
	{"error rendering prompt with jinja template", cannotTake, ""}, // LM Studio
	{"json schema conversion failed", cannotTake, ""},
	{"invalid tool call arguments", cannotTake, ""},
	{"[json.exception.", cannotTake, ""},         // llama.cpp: arguments in history that are no JSON
	{"can only concatenate str", cannotTake, ""}, // llama-cpp-python: 500
	{"\"auto\" tool choice requires --enable-auto-tool-choice", cannotTake,
		"start vLLM with --enable-auto-tool-choice and --tool-call-parser"},
	{"invocation of model id * with on-demand throughput", cannotTake, "the model is offered by an inference profile " +
		"only: write its id (us., eu., ...) as the route's model"}, // Bedrock
	{"the provided model identifier is invalid", cannotTake, wrongModel}, // Bedrock
	{"* is not a valid model id", cannotTake, wrongModel},                // OpenRouter
	{"model not exist", cannotTake, wrongModel},                          // DeepSeek
	{"model does not exist", cannotTake, wrongModel},                     // Zhipu
	{"the requested model is not supported", cannotTake, wrongModel},     // Copilot

	{"function id '*': degraded function", failure, ""},                 // NVIDIA: 400
	{"model is unavailable", failure, ""},                               // Zen: 400, for a while
	{"model \"*\" not found, try pulling it first", failure, pullModel}, // Ollama: 404
	{"model '*' not found, try pulling it first", failure, pullModel},
	{"model \"*\" not found", failure, pullModel},
	{"model '*' not found", failure, pullModel},
	{"unexpected server status", failure, ""},                // Ollama, of its runner
	{"enginecore encountered an issue", failure, ""},         // vLLM, with the code 400
	{"model requires more system memory", failure, noMemory}, // Ollama: 500
	{"~out of memory", failure, noMemory},
	{"~cudamalloc", failure, noMemory},
}

const (
	wrongModel = "check the route's model"
	pullModel  = "Ollama has not pulled the model: run `ollama pull MODEL` on its machine"
	noMemory   = "Ollama has not enough memory to load the model; lower num_ctx or the route's context_window, " +
		"or take a smaller model"
)
