// link: common-cel common-config-rules
// Expressions in CEL of documents: conditions on links, the two expressions of OOMConfig, and the
// selectors of disks and volumes, which the brain evaluates.
#include <kj/debug.h>
#include <stddef.h>
#include <stdint.h>

#include "common/cel/oom-expressions.h"
#include "common/cel/volume-selectors.h"
#include "common/config/rules/link-selector.h"
#include "tests/fuzz/fuzz-target.h"

using namespace talos;

namespace {

cel::Values triggerValues(double number) {
  cel::Vector vector;
  for (auto each : cel::kCgroupClasses) vector[static_cast<int64_t>(each)] = number;
  cel::Values values;
  auto add = [&](kj::StringPtr prefix, kj::StringPtr name, cel::Value value) {
    values[kj::str(prefix, "memory_", name).cStr()] = kj::mv(value);
  };
  for (auto name : cel::kPressures) {
    for (auto prefix : {""_kj, "d_"_kj}) add(prefix, name, cel::Value::of(number));
    for (auto prefix : {"qos_"_kj, "d_qos_"_kj}) add(prefix, name, cel::Value::of(vector));
  }
  for (auto name : cel::kUses) {
    for (auto prefix : {"qos_"_kj, "d_qos_"_kj}) add(prefix, name, cel::Value::of(vector));
  }
  values["time_since_trigger"] = cel::Value::of(5 * kj::SECONDS);
  return values;
}

cel::Values rankingValues(kj::Maybe<uint64_t> bytes) {
  cel::Values values;
  for (auto name : cel::kUses) values[kj::str("memory_", name).cStr()] = cel::Value::of(bytes);
  values["path"] = cel::Value::of("kubepods/besteffort/pod1"_kj);
  values["class"] = cel::Value::of(int64_t{0});
  return values;
}

// Returns true if there is no mistake; one is in the text.
bool checkMistake(kj::StringPtr text, const cel::Compiled& compiled) {
  KJ_IF_MAYBE (mistake, compiled.mistake) {
    KJ_ASSERT(mistake->at <= text.size());
    KJ_ASSERT(cel::render(text, *mistake).size() > 0);
    return false;
  }
  return true;
}

// A disk selector is a volume selector, too, and selects the same disk.
void checkSelectors(kj::StringPtr text) {
  auto ofDisk = cel::compileDiskSelector(text), ofVolume = cel::compileVolumeSelector(text);
  bool disk = checkMistake(text, ofDisk), volume = checkMistake(text, ofVolume);
  KJ_ASSERT(!disk || volume);
  if (!volume) return;
  const cel::DiskProperties disks[] = {
      {}, {.size = UINT64_MAX, .rotational = true, .model = "A*?", .systemDisk = true}};
  for (auto& properties : disks) {
    bool selected =
        cel::selects(ofVolume.program, {.name = "ext4", .label = "data", .size = 1}, properties);
    if (disk) KJ_ASSERT(cel::selects(ofDisk.program, properties) == selected);
  }
}

// A mistake is in the text, and a program without a mistake has a value of its type.
void check(kj::StringPtr text, const cel::Compiled& compiled, cel::Type type,
           std::initializer_list<cel::Values> all) {
  if (!checkMistake(text, compiled)) return;
  for (auto& values : all) {
    auto result = compiled.program.run(values);
    KJ_ASSERT(result.mistake != nullptr || result.value.type == type);
  }
}

}  // namespace

FUZZ_TARGET(cel) {
  auto text = kj::heapString(reinterpret_cast<const char*>(data), size);
  check(text, cel::compileTrigger(text), cel::Type::kBool, {triggerValues(0), triggerValues(1e9)});
  check(text, cel::compileRanking(text), cel::Type::kDouble,
        {rankingValues(nullptr), rankingValues(1 << 20)});
  checkSelectors(text);
  auto selector = config::parseLinkSelector(text);
  KJ_ASSERT(selector.problem.size() > 0 || !selector.any.empty());
  return 0;
}
