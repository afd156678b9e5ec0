// Parsers of the kernel's counters: each function takes a file's text and returns the answer's
// fields after field 1. Malformed lines are left out. Pure.
//
// Texts come from other nodes and are not trusted: nothing is copied field by field, and more text,
// lines or numbers than the largest machines have are ResourceExhausted.
#pragma once

#include <kj/string.h>

#include "common/grpc-messages/protobuf-wire.h"
#include "rpc/machine.capnp.h"

namespace talos::grpcapi {

kj::Array<kj::byte> loadAverage(kj::ArrayPtr<const char> text);    // /proc/loadavg
kj::Array<kj::byte> systemStat(kj::ArrayPtr<const char> text);     // /proc/stat
kj::Array<kj::byte> processorInfo(kj::ArrayPtr<const char> text);  // /proc/cpuinfo
kj::Array<kj::byte> networkStats(kj::ArrayPtr<const char> text);   // /proc/net/dev
kj::Array<kj::byte> diskStats(kj::ArrayPtr<const char> text);      // /proc/diskstats
// Parses cpufreq of all processors, with the files of each processor in a row: one message for each
// processor, and none at all without files (no governor). kHz. A frequency that the driver does not
// know is left out.
kj::Array<kj::byte> frequencies(capnp::List<rpc::CounterFile>::Reader files);

}  // namespace talos::grpcapi
