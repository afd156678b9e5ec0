// The two expressions of the document OOMConfig: when the node kills a cgroup because memory is
// short, and which one. docs/config-documents.md lists their variables. Pure.
//
// Classes of cgroups are ints, the lowest first; a map has a value for each class.
#pragma once

#include "common/cel/cel-program.h"

namespace talos::cel {

enum class CgroupClass : int64_t { kBesteffort, kBurstable, kGuaranteed, kPodruntime, kSystem };
constexpr CgroupClass kCgroupClasses[] = {CgroupClass::kBesteffort, CgroupClass::kBurstable,
                                          CgroupClass::kGuaranteed, CgroupClass::kPodruntime,
                                          CgroupClass::kSystem};
kj::StringPtr nameOf(CgroupClass cgroupClass);  // Besteffort, as in expressions

// Parts of the names of the trigger's variables: "d_" "qos_" "memory_" "full_avg10".
constexpr kj::StringPtr kPressures[] = {"some_avg10"_kj,  "some_avg60"_kj, "some_avg300"_kj,
                                        "some_total"_kj,  "full_avg10"_kj, "full_avg60"_kj,
                                        "full_avg300"_kj, "full_total"_kj};
constexpr kj::StringPtr kUses[] = {"current"_kj, "peak"_kj, "max"_kj};

// Expressions of the documents; "" means the default.
Compiled compileTrigger(kj::StringPtr text);  // a bool
Compiled compileRanking(kj::StringPtr text);  // a double
kj::StringPtr triggerOf(kj::StringPtr text);  // the default for ""
kj::StringPtr rankingOf(kj::StringPtr text);

}  // namespace talos::cel
