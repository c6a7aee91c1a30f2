// Reads what a driver must know of a SPIR-V module: the kernels' names and parameters, and the
// capabilities that the module requires.
#pragma once
#include <cstdint>
#include <cstring>
#include <map>
#include <string>
#include <vector>

namespace software {

struct Parameter {
  char sort;  // 'p' pointer to device memory, 'i' whole number, 'f' real
  uint32_t bytes;
};

struct Spirv {
  std::map<std::string, std::vector<Parameter>> kernels;
  bool float64 = false;
  std::string error;  // text for the build log, or empty

  Spirv(const uint8_t* image, size_t bytes) {
    std::vector<uint32_t> words(bytes / 4);
    std::memcpy(words.data(), image, words.size() * 4);
    if (bytes % 4 || words.size() < 5 || words[0] != 0x07230203) {
      error = "not SPIR-V";
      return;
    }
    struct Type {
      char sort;
      uint32_t bytes;
    };
    std::map<uint32_t, Type> types;
    std::map<uint32_t, std::vector<uint32_t>> functions;  // parameter types by function type
    std::map<uint32_t, std::string> entries;
    for (size_t at = 5; at < words.size();) {
      const uint32_t count = words[at] >> 16, op = words[at] & 0xffff;
      const uint32_t* word = &words[at];
      if (count == 0 || at + count > words.size()) {
        error = "the SPIR-V ends within an instruction";
        return;
      }
      if (op == 17 && count > 1 && word[1] == 10) float64 = true;
      if (op == 15 && count > 3) {
        const char* name = reinterpret_cast<const char*>(word + 3);
        entries[word[2]] = std::string(name, strnlen(name, (count - 3) * 4));
        if (word[1] != 6) error = "an entry point that is no kernel";
      }
      if (op == 21 && count > 2) types[word[1]] = {'i', word[2] / 8};
      if (op == 22 && count > 2) types[word[1]] = {'f', word[2] / 8};
      if (op == 32 && count > 2) types[word[1]] = {word[2] == 5 ? 'p' : '?', 8};
      if (op == 33) functions[word[1]].assign(word + 3, word + count);
      if (op == 54 && count > 4)
        if (auto entry = entries.find(word[2]); entry != entries.end()) {
          auto& parameters = kernels[entry->second];
          for (uint32_t type : functions[word[4]]) {
            const auto known = types.find(type);
            parameters.push_back(known == types.end()
                                     ? Parameter{'?', 0}
                                     : Parameter{known->second.sort, known->second.bytes});
          }
        }
      at += count;
    }
    if (error.empty() && kernels.empty()) error = "a module without kernels";
  }
};

}  // namespace software
