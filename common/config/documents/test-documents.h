// Configs with documents beside the main one, for tests.
#pragma once

#include <string>

#include "common/config/config.h"
#include "common/config/documents/documents.h"

namespace talos::config {

inline constexpr auto kMainDocument =
    "machine:\n  type: TYPE\n  token: abcdef.0123456789abcdef\n"
    "  network: {NETWORK}\n";

// Returns a main document with these keys of machine.network.
inline std::string mainDocument(const std::string& network = "",
                                const std::string& type = "controlplane") {
  std::string text = kMainDocument;
  text.replace(text.find("NETWORK"), 7, network);
  return text.replace(text.find("TYPE"), 4, type);
}

// A document in flow form, without its apiVersion.
inline std::string oneDocument(const std::string& keys) {
  return "---\n{apiVersion: v1alpha1, " + keys + "}\n";
}

inline MachineConfig parsed(const std::string& text) {
  return parse(kj::arrayPtr(text.data(), text.size()), "c.yaml");
}

// Returns the problems that are about documents beside the main one.
inline std::string problemsIn(const std::string& text) {
  auto config = parsed(text);
  std::string shown;
  for (auto& problem : config.problems()) {
    if (isInDocument(problem.path)) shown += std::string(problem.toString().cStr()) + "\n";
  }
  return shown;
}

}  // namespace talos::config
