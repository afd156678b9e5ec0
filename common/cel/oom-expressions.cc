#include "common/cel/oom-expressions.h"

#include <kj/debug.h>

#include "common/cel/volume-selectors.h"

namespace talos::cel {
namespace {

constexpr kj::StringPtr kDefaultTrigger =
    "multiply_qos_vectors(d_qos_memory_full_total, {System: 8.0, Podruntime: 4.0}) > 3000.0 && "
    "multiply_qos_vectors(qos_memory_full_avg10, {System: 1.0, Podruntime: 1.0}) > 5.0 && "
    "time_since_trigger > duration(\"5s\")"_kj;
constexpr kj::StringPtr kDefaultRanking =
    "memory_max.hasValue() ? 0.0 : {Besteffort: 1.0, Burstable: 0.5, Guaranteed: 0.0, "
    "Podruntime: 0.0, System: 0.0}[class] * double(memory_current.orValue(0u))"_kj;

std::map<std::string, Value> constants() {
  auto result = unitConstants();
  for (auto each : kCgroupClasses) {
    result.emplace(nameOf(each).cStr(), Value::of(static_cast<int64_t>(each)));
  }
  return result;
}

Environment triggerEnvironment() {
  Environment result;
  result.constants = constants();
  auto add = [&](kj::StringPtr prefix, kj::StringPtr name, Type type) {
    result.variables.emplace(kj::str(prefix, "memory_", name).cStr(), type);
  };
  for (auto name : kPressures) {
    for (auto prefix : {""_kj, "d_"_kj}) add(prefix, name, Type::kDouble);
    for (auto prefix : {"qos_"_kj, "d_qos_"_kj}) add(prefix, name, Type::kVector);
  }
  for (auto name : kUses) {
    for (auto prefix : {"qos_"_kj, "d_qos_"_kj}) add(prefix, name, Type::kVector);
  }
  result.variables.emplace("time_since_trigger", Type::kDuration);
  return result;
}

Environment rankingEnvironment() {
  Environment result;
  result.constants = constants();
  for (auto name : kUses) {
    result.variables.emplace(kj::str("memory_", name).cStr(), Type::kOptionalUint);
  }
  result.variables.emplace("path", Type::kText);
  result.variables.emplace("class", Type::kInt);
  return result;
}

}  // namespace

kj::StringPtr nameOf(CgroupClass cgroupClass) {
  switch (cgroupClass) {
    case CgroupClass::kBesteffort:
      return "Besteffort"_kj;
    case CgroupClass::kBurstable:
      return "Burstable"_kj;
    case CgroupClass::kGuaranteed:
      return "Guaranteed"_kj;
    case CgroupClass::kPodruntime:
      return "Podruntime"_kj;
    case CgroupClass::kSystem:
      return "System"_kj;
  }
  KJ_UNREACHABLE;
}

kj::StringPtr triggerOf(kj::StringPtr text) {
  return text.size() == 0 ? kDefaultTrigger : text;
}
kj::StringPtr rankingOf(kj::StringPtr text) {
  return text.size() == 0 ? kDefaultRanking : text;
}

Compiled compileTrigger(kj::StringPtr text) {
  return compile(triggerOf(text), triggerEnvironment(), Type::kBool);
}
Compiled compileRanking(kj::StringPtr text) {
  return compile(rankingOf(text), rankingEnvironment(), Type::kDouble);
}

}  // namespace talos::cel
