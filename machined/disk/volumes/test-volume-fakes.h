// For tests: marks of formatting in memory, and reports that are discarded.
#pragma once

#include <map>
#include <string>

#include "common/base/error.h"
#include "machined/disk/volumes/format-marks.h"
#include "machined/disk/volumes/system-partitions.h"

namespace talos::machined {

constexpr uint64_t kMiB = 1u << 20, kGiB = 1u << 30;

// Marks in memory.
struct ModelMarks final : FormatMarks {
  std::map<std::string, uint64_t> marks;
  bool hasMeta = true, answers = true;
  kj::Function<void(kj::StringPtr what, kj::Function<void()> effect)> step =
      [](kj::StringPtr, kj::Function<void()> effect) { effect(); };

  kj::Promise<bool> has(kj::StringPtr label, uint64_t begin) override {
    if (!answers) fail(ErrorKind::kDeadlineExceeded, "META did not respond");
    auto found = marks.find(label.cStr());
    return found != marks.end() && found->second == begin;
  }
  kj::Promise<bool> set(kj::StringPtr label, uint64_t begin) override {
    if (!hasMeta) co_return false;
    if (!answers) fail(ErrorKind::kDeadlineExceeded, "META did not respond");
    step("mark", [&]() { marks[label.cStr()] = begin; });
    co_return true;
  }
  kj::Promise<void> clear(kj::StringPtr label) override {
    step("unmark", [&]() { marks.erase(label.cStr()); });
    co_return;
  }
};

// Discards reports of volumes. A fixture overrides the methods that it checks.
struct IgnoredReports : VolumeReports {
  void report(kj::StringPtr, const VolumeReport&) override {}
  void reportKeys(kj::StringPtr, const KeysReport&) override {}
  void reportFailure(kj::StringPtr, kj::StringPtr) override {}
  void reportTarget(kj::StringPtr, kj::StringPtr) override {}
};

}  // namespace talos::machined
