#include "talosctl/debug/crash-text.h"

#include <zstd.h>

#include "common/base/error.h"
#include "talosctl/cli/table.h"

namespace talos::talosctl {
namespace {

void addSection(kj::Vector<kj::String>& lines, kj::StringPtr title,
                capnp::List<capnp::Text>::Reader values) {
  lines.add(kj::str(title, ":"));
  for (auto value : values) lines.add(kj::str("  ", printable(value)));
}

kj::String causeOf(CrashReport report) {
  if (report.getAddress().size() > 0) {
    return kj::str(report.getSignal(), " at address ", report.getAddress());
  }
  if (report.getSender() == report.getPid()) return kj::str(report.getSignal(), ", by itself");
  return kj::str(report.getSignal(), ", sent by process ", report.getSender());
}

}  // namespace

kj::String renderCrashes(kj::ArrayPtr<const NodeCrash> crashes) {
  Table table({"NODE", "NAME", "SERVICE", "SIGNAL", "TIME", "VERSION"});
  for (auto& crash : crashes) {
    auto report = crash.report;
    table.add(crash.node, crash.id, report.getService(), report.getSignal(), report.getTime(),
              report.getVersion());
  }
  return table.render();
}

kj::String describeFrame(kj::StringPtr address, kj::Maybe<const crash::SymbolTable&> symbols) {
  KJ_IF_MAYBE (table, symbols) {
    KJ_IF_MAYBE (number, crash::parseAddress(address)) {
      KJ_IF_MAYBE (name, table->nameOf(*number)) return kj::str(address, ' ', *name);
    }
  }
  return kj::str(address);
}

kj::String renderCrash(const NodeCrash& crash, kj::Maybe<const crash::SymbolTable&> symbols) {
  auto report = crash.report;
  kj::Vector<kj::String> lines;
  auto field = [&](kj::StringPtr name, auto&& value) {
    lines.add(kj::str(name, printable(kj::str(value))));
  };
  field("Node:      ", crash.node);
  field("Name:      ", crash.id);
  field("Service:   ", report.getService());
  field("Program:   ",
        kj::str(report.getProgram(), ' ', report.getVersion(), ", build id ", report.getBuildId()));
  field("Process:   ", report.getPid());
  field("Cause:     ", causeOf(report));
  field("Time:      ",
        kj::str(report.getTime(), ", ", report.getUptime(), " s after the start of the node"));
  if (report.getCore() > 0) {
    field("Core:      ", kj::str(report.getCore(), " bytes; --core saves it"));
  }
  if (report.getProblem().size() > 0) field("Missing:   ", report.getProblem());
  addSection(lines, "Registers", report.getRegisters());
  lines.add(kj::str("Stack:"));
  for (auto frame : report.getStack()) {
    lines.add(kj::str("  ", printable(describeFrame(frame, symbols))));
  }
  addSection(lines, "Under way", report.getWaits());
  addSection(lines, "Log", report.getLog());
  addSection(lines, "Memory map", report.getMap());
  return kj::str(kj::strArray(lines, "\n"), '\n');
}

kj::Array<char> unpackedCore(kj::ArrayPtr<const kj::byte> packed) {
  auto out = kj::heapArray<char>(kMostCore);
  auto size = ZSTD_decompress(out.begin(), out.size(), packed.begin(), packed.size());
  if (ZSTD_isError(size)) {
    fail(ErrorKind::kInternal, kj::str("the core is damaged: ", ZSTD_getErrorName(size)));
  }
  return kj::heapArray<char>(out.slice(0, size));
}

}  // namespace talos::talosctl
