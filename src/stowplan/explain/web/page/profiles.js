// The scheduler's profiles as fields: weights of plugins and the strategy of NodeResourcesFit.

import { get } from "./api.js";
import { el } from "./dom.js";

const STRATEGIES = ["LeastAllocated", "MostAllocated", "RequestedToCapacityRatio"];

// The present weights and strategy of each profile; none for people who may not see the configuration.
export async function presentProfiles() {
  const config = await get("/config").catch(() => null);
  return (config?.profiles ?? []).map((profile) => {
    const points = Object.values(profile.plugins ?? {});
    const weights = points
      .flatMap((point) => point.enabled ?? [])
      .filter((one) => one.weight > 0)
      .map((one) => [one.name, one.weight]);
    const fit = (profile.pluginConfig ?? []).find((one) => one.name === "NodeResourcesFit");
    return {
      name: profile.schedulerName,
      weights: Object.fromEntries(weights),
      strategy: fit?.args?.scoringStrategy?.type ?? "",
    };
  });
}

// What differs from the present profiles, as the API takes it; null if nothing does.
export function differences(profiles, chosen) {
  const found = {};
  for (const profile of profiles) {
    const mine = chosen[profile.name] ?? {};
    const weights = Object.entries(mine.weights ?? {}).filter(
      ([plugin, value]) => value !== "" && Number(value) !== profile.weights[plugin],
    );
    const strategy = mine.strategy && mine.strategy !== profile.strategy ? mine.strategy : "";
    if (weights.length || strategy) {
      found[profile.name] = {
        ...(weights.length ? { weights: Object.fromEntries(weights.map(([k, v]) => [k, Number(v)])) } : {}),
        ...(strategy ? { strategy } : {}),
      };
    }
  }
  return Object.keys(found).length ? found : null;
}

// Fields by profile; `chosen` keeps what was entered.
export function profileFields(profiles, chosen, changed) {
  return profiles.map((profile) => {
    const mine = (chosen[profile.name] ??= { weights: {}, strategy: "" });
    const strategy = el(
      "select",
      {
        onchange: (event) => {
          mine.strategy = event.target.value;
          changed();
        },
      },
      STRATEGIES.map((name) =>
        el("option", { value: name, selected: name === (mine.strategy || profile.strategy) }, name),
      ),
    );
    return el(
      "div",
      { class: "profile", "data-field": `profiles.${profile.name}` },
      profiles.length > 1 && el("b", {}, profile.name),
      profile.strategy &&
        el("label", { class: "wide" }, el("span", {}, "strategy of NodeResourcesFit"), strategy),
      el(
        "div",
        { class: "weights", role: "group", "aria-label": `Weights of ${profile.name}` },
        Object.entries(profile.weights).map(([plugin, weight]) =>
          el(
            "label",
            {},
            el("span", { title: plugin }, plugin),
            el("input", {
              type: "number",
              min: "1",
              value: mine.weights[plugin] ?? weight,
              oninput: (event) => {
                mine.weights[plugin] = event.target.value;
                changed();
              },
            }),
          ),
        ),
      ),
      el("p", { class: "bad wrong", role: "alert", hidden: true }),
    );
  });
}
