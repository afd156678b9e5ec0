// Parsers of the kernel's counters: each function takes a file's text and returns the fields of the
// answer behind field 1. Malformed lines are left out. Pure.
//
// Texts are foreign, as another node sends them: nothing is copied field by field, and more text,
// lines or numbers than the largest machines have are ResourceExhausted.
#pragma once

#include <kj/string.h>

#include "apid/grpc/protobuf-wire.h"
#include "rpc/machine.capnp.h"

namespace talos::grpcapi {

kj::Array<kj::byte> loadAverage(kj::ArrayPtr<const char> text);    // /proc/loadavg
kj::Array<kj::byte> systemStat(kj::ArrayPtr<const char> text);     // /proc/stat
kj::Array<kj::byte> processorInfo(kj::ArrayPtr<const char> text);  // /proc/cpuinfo
kj::Array<kj::byte> networkStats(kj::ArrayPtr<const char> text);   // /proc/net/dev
kj::Array<kj::byte> diskStats(kj::ArrayPtr<const char> text);      // /proc/diskstats
// cpufreq of all processors, the files of each behind one another: one message for each processor,
// none if nobody governs one. kHz. A frequency that the driver does not know is not in it.
kj::Array<kj::byte> frequencies(capnp::List<rpc::CounterFile>::Reader files);

}  // namespace talos::grpcapi
