#include "apid/metrics/kernel-metrics.h"
#include "common/base/lines.h"
#include "common/text/fields.h"

namespace talos::metrics {
namespace {

constexpr uint64_t kKiB = 1024;

// Converts names as node_exporter does: Active(anon) is Active_anon. Returns nullptr if the name
// has other characters.
kj::Maybe<kj::String> metricNameOf(kj::StringPtr field) {
  kj::Vector<char> name;
  for (char c : field) {
    bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    if (letter || c == '_') {
      name.add(c);
    } else if (c == '(') {
      name.add('_');
    } else if (c != ')') {
      return nullptr;
    }
  }
  if (name.size() == 0) return nullptr;
  return kj::heapString(name.begin(), name.size());
}

struct VmstatRow {
  kj::StringPtr field, name, help;
};
constexpr VmstatRow kVmstat[] = {
    {"pgpgin"_kj, "node_vmstat_pgpgin"_kj, "KiB that were read from disks"_kj},
    {"pgpgout"_kj, "node_vmstat_pgpgout"_kj, "KiB that were written to disks"_kj},
    {"pswpin"_kj, "node_vmstat_pswpin"_kj, "Pages that were read from swap"_kj},
    {"pswpout"_kj, "node_vmstat_pswpout"_kj, "Pages that were written to swap"_kj},
    {"pgfault"_kj, "node_vmstat_pgfault"_kj, "Page faults"_kj},
    {"pgmajfault"_kj, "node_vmstat_pgmajfault"_kj, "Page faults that read from a disk"_kj},
    {"oom_kill"_kj, "node_vmstat_oom_kill"_kj, "Processes that the kernel killed for memory"_kj},
};

}  // namespace

void writeMemory(MetricsText& out, capnp::List<rpc::MemoryField>::Reader fields) {
  for (auto field : fields) {
    KJ_IF_MAYBE (base, metricNameOf(field.getName())) {
      bool bytes = field.getUnit() == "kB";
      auto name = kj::str("node_memory_", *base, bytes ? "_bytes" : "");
      auto help = kj::str(field.getName(), " of /proc/meminfo");
      out.family(name, Type::kGauge, help);
      out.add(bytes ? field.getValue() * kKiB : field.getValue());
    }
  }
}

void writeVmstat(MetricsText& out, FileText vmstat) {
  for (auto& row : kVmstat) {
    for (auto line : Lines(vmstat)) {
      Fields fields(line);
      if (fields.next() != row.field.asArray()) continue;
      out.family(row.name, Type::kUntyped, row.help);
      out.add(numberIn<uint64_t>(fields.next()));
      break;
    }
  }
}

void writeFileHandles(MetricsText& out, FileText fileNr) {
  Fields fields(fileNr.size() > 0 && fileNr.back() == '\n' ? fileNr.slice(0, fileNr.size() - 1)
                                                           : fileNr);
  auto allocated = fields.next();
  fields.next();  // free handles, always 0
  auto most = fields.next();
  if (most.size() == 0) return;
  out.family("node_filefd_allocated", Type::kGauge, "Open files");
  out.add(numberIn<uint64_t>(allocated));
  out.family("node_filefd_maximum", Type::kGauge, "Open files that the kernel allows");
  out.add(numberIn<double>(most));  // may be 2^63
}

}  // namespace talos::metrics
