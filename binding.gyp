{
  "includes": ["native/sources.gypi"],
  "target_defaults": {
    "defines": ["NAPI_VERSION=9", "NODE_ADDON_API_DISABLE_DEPRECATED", "NODE_API_SWALLOW_UNTHROWABLE_EXCEPTIONS"],
    "dependencies": ["<!(node -p \"require('node-addon-api').targets\"):node_addon_api_except"],
    "include_dirs": ["native"],
    "cflags_cc!": ["-std=gnu++17", "-O2"],
    "cflags_cc": ["-std=c++17", "-O3", "-Wall", "-Wextra", "-fvisibility=hidden", "-ffp-contract=off", "<@(extra_cflags)"],
    "ldflags": ["-Wl,-z,nodelete", "<@(extra_ldflags)"]
  },
  "targets": [
    { "target_name": "device", "sources": ["<@(device_sources)"], "libraries": ["-ldl", "-lpthread"] },
    { "target_name": "pack", "sources": ["<@(pack_sources)"] },
    { "target_name": "submit", "sources": ["<@(submit_sources)"] },
    { "target_name": "poll", "sources": ["<@(poll_sources)"] },
    { "target_name": "replay", "sources": ["<@(replay_sources)"] },
    { "target_name": "rows", "sources": ["<@(rows_sources)"] },
    { "target_name": "system", "sources": ["<@(system_sources)"] },
    { "target_name": "ranks", "sources": ["<@(ranks_sources)"], "libraries": ["-ldl", "-lpthread"] }
  ]
}
