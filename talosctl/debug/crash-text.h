// Renders a crash report as text, with the names of functions if their table is available, and
// unpacks its core. Pure.
#pragma once

#include "common/crash/symbol-table.h"
#include "rpc/machine-resources.capnp.h"
#include "talosctl/client/answer-output.h"

namespace talos::talosctl {

using CrashReport = rpc::CrashReportSpec::Reader;

struct NodeCrash {
  kj::StringPtr node, id;
  CrashReport report;
};

// Renders a table with one row for each crash.
kj::String renderCrashes(kj::ArrayPtr<const NodeCrash> crashes);

// Returns "0x401200 talos::apid::run()+0x12". A table of another program than the report's yields
// no names.
kj::String describeFrame(kj::StringPtr address, kj::Maybe<const crash::SymbolTable&> symbols);

// Renders the whole report of one crash.
kj::String renderCrash(const NodeCrash& crash, kj::Maybe<const crash::SymbolTable&> symbols);

// Unpacks a core file that a node has packed with Zstandard. Throws Internal if it is damaged or
// larger than kMostCore.
constexpr size_t kMostCore = 1u << 20;
kj::Array<char> unpackedCore(kj::ArrayPtr<const kj::byte> packed);

}  // namespace talos::talosctl
