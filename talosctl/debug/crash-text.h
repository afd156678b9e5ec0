// A crash report as text, with the names of functions where there is a table of them, and its core.
// Pure.
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

// A table: one row for each.
kj::String renderCrashes(kj::ArrayPtr<const NodeCrash> crashes);

// "0x401200 talos::apid::run()+0x12"; the table must be of the report's program, or names nothing.
kj::String describeFrame(kj::StringPtr address, kj::Maybe<const crash::SymbolTable&> symbols);

// The whole of one.
kj::String renderCrash(const NodeCrash& crash, kj::Maybe<const crash::SymbolTable&> symbols);

// Unpacks a core file that a node has packed with Zstandard. Throws Internal when it is damaged or
// larger than kMostCore.
constexpr size_t kMostCore = 1u << 20;
kj::Array<char> unpackedCore(kj::ArrayPtr<const kj::byte> packed);

}  // namespace talos::talosctl
