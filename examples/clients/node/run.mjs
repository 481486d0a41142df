// What the scripts in this folder share: where the gateway is, what is asked, and how the result is told.
//
//   FAREWAY_URL=http://127.0.0.1:8484 FAREWAY_KEY=... node SCRIPT.mjs FAMILY plain|streamed [MODEL]
//
// FAMILY is chat, responses or messages. The script asks for the weather in a city, runs the tool that the model
// calls, sends the result, and prints one line of JSON: the final text, and the cities that the tool was run for.

const [family, mode, model] = process.argv.slice(2);

export const url = process.env.FAREWAY_URL;
export const key = process.env.FAREWAY_KEY;
export const streamed = mode === "streamed";
export { family, model };

export const prompt = "weather in Oslo";
export const description = "Tells the weather in a city.";
export const schema = {
  type: "object",
  properties: { city: { type: "string" } },
  required: ["city"],
  additionalProperties: false,
};

const ran = [];

// weather is the tool.
export function weather({ city }) {
  ran.push(city);
  return `sunny in ${city}`;
}

// run does the script's way with the family and prints the final text that it returns.
export async function run(families) {
  if (!(family in families)) {
    throw new Error(`this library does not speak ${family}: choose one of ${Object.keys(families).join(", ")}`);
  }
  const text = await families[family]();
  console.log(JSON.stringify({ text, ran }));
}
