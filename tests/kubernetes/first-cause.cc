#include "tests/kubernetes/first-cause.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include "common/kube/json.h"

namespace talos {

using harness::contains;

FirstCause firstOf(const harness::Result& answer) {
  FirstCause first;
  if (answer.out.empty()) return first;
  auto json = kube::readJson(kj::arrayPtr(answer.out.data(), answer.out.size()), "the diagnosis");
  auto causes = kube::itemsAt(json, {"causes"});
  if (causes.size() == 0) return first;
  first.check = kube::textAt(*causes[0], {"check"}).cStr();
  first.layer = kube::textAt(*causes[0], {"layer"}).cStr();
  first.confidence = kube::textAt(*causes[0], {"confidence"}).cStr();
  first.remedy = kube::textAt(*causes[0], {"command"}).cStr();
  first.text = kube::writeJson(*causes[0]).cStr();
  return first;
}

const char* nameOf(Cure cure) {
  return cure == Cure::kTyped ? "typed" : cure == Cure::kFilledIn ? "filled in" : "undone";
}

std::string lineOf(std::string remedy, const Answers& answers) {
  for (auto& [name, value] : answers.placeholders) {
    auto placeholder = "<" + name + ">";
    auto at = remedy.find(placeholder);
    EXPECT_NE(at, std::string::npos) << placeholder << " is not in: " << remedy;
    if (at != std::string::npos) remedy.replace(at, placeholder.size(), value);
  }
  auto command = remedy.substr(0, remedy.find("    # "));
  EXPECT_TRUE(command.starts_with("talosctl ") || command.starts_with("kubectl ")) << remedy;
  EXPECT_FALSE(contains(command, "<")) << remedy;
  return remedy;
}

std::string textOf(const std::vector<std::string>& words) {
  std::string text;
  for (size_t i = 0; i < words.size(); ++i) {
    if (words[i] == "-n" && words[0] != "kubectl") {
      ++i;
    } else if (!words[i].starts_with("--wait-timeout")) {
      text += (text.empty() ? "" : " ") + words[i];
    }
  }
  return text;
}

bool isChosen(const char* name, bool always) {
  auto chosen = getenv("DIAGNOSE");
  if (chosen == nullptr || *chosen == '\0') return always;
  return std::string(chosen) == "all" || contains(chosen, name);
}

}  // namespace talos
