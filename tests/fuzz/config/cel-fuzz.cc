// link: common-cel common-config-rules
// Expressions in CEL of documents: conditions on links, and the two expressions of OOMConfig, which
// the brain evaluates.
#include <kj/debug.h>
#include <stddef.h>
#include <stdint.h>

#include "common/cel/oom-expressions.h"
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

// A mistake is in the text, and a program without a mistake has a value of its type.
void check(kj::StringPtr text, const cel::Compiled& compiled, cel::Type type,
           std::initializer_list<cel::Values> all) {
  KJ_IF_MAYBE (mistake, compiled.mistake) {
    KJ_ASSERT(mistake->at <= text.size());
    KJ_ASSERT(cel::render(text, *mistake).size() > 0);
    return;
  }
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
  auto selector = config::parseLinkSelector(text);
  KJ_ASSERT(selector.problem.size() > 0 || !selector.any.empty());
  return 0;
}
