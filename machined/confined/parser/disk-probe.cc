#include "machined/confined/parser/disk-probe.h"

#include <blkid/blkid.h>
#include <kj/vector.h>

#include "common/base/error.h"
#include "common/base/fill-list.h"
#include "common/text/foreign-text.h"
#include "machined/confined/parser-client/foreign-bytes.h"

namespace talos::parse {
namespace {

constexpr uint64_t kSector = 512;  // the unit of libblkid, whatever the disk has

struct Volume {
  kj::String type, label;
};

kj::String valueOf(blkid_probe probe, const char* name) {
  const char* value = nullptr;
  if (blkid_probe_lookup_value(probe, name, &value, nullptr) != 0) return kj::String();
  return fieldText(kj::StringPtr(value));
}

kj::String textOr(const char* text, kj::StringPtr absent) {
  return text == nullptr || *text == 0 ? kj::str(absent) : fieldText(kj::StringPtr(text));
}

// Returns "gpt ID" for the table, or "gpt" if the table has no ID.
kj::String tableOf(blkid_probe probe, kj::StringPtr kind) {
  auto list = blkid_probe_get_partitions(probe);
  auto table = list == nullptr ? nullptr : blkid_partlist_get_table(list);
  auto id = table == nullptr ? nullptr : blkid_parttable_get_id(table);
  return id == nullptr ? kj::str(kind) : kj::str(kind, ' ', fieldText(kj::StringPtr(id)));
}

// Returns "NUMBER BEGIN BYTES ID ATTRIBUTES NAME" for each, with "-" for a missing ID.
kj::Vector<kj::String> partitionsOf(blkid_probe probe) {
  kj::Vector<kj::String> names;
  auto list = blkid_probe_get_partitions(probe);
  if (list == nullptr) return names;
  for (int i = 0; i < blkid_partlist_numof_partitions(list); ++i) {
    if (names.size() == machined::kMostPartitions) break;
    auto partition = blkid_partlist_get_partition(list, i);
    if (partition == nullptr) continue;
    auto name = blkid_partition_get_name(partition), id = blkid_partition_get_uuid(partition);
    names.add(kj::str(blkid_partition_get_partno(partition), ' ',
                      blkid_partition_get_start(partition) * kSector, ' ',
                      blkid_partition_get_size(partition) * kSector, ' ', textOr(id, "-"), ' ',
                      blkid_partition_get_flags(partition), ' ', textOr(name, "")));
  }
  return names;
}

}  // namespace

void probeDisk(int disk, rpc::FoundOnDisk::Builder out) {
  auto probe = blkid_new_probe();
  KJ_REQUIRE(probe != nullptr);
  KJ_DEFER(blkid_free_probe(probe));
  constexpr auto kUnreadable = "it cannot be read"_kj;
  if (blkid_probe_set_device(probe, disk, 0, 0) != 0) fail(ErrorKind::kUnavailable, kUnreadable);
  blkid_probe_enable_superblocks(probe, 1);
  blkid_probe_set_superblocks_flags(probe, BLKID_SUBLKS_TYPE | BLKID_SUBLKS_LABEL);
  blkid_probe_enable_partitions(probe, 1);
  kj::Vector<Volume> volumes;
  kj::Vector<kj::String> partitions;
  kj::String table;
  int result;
  while ((result = blkid_do_probe(probe)) == 0) {
    auto type = valueOf(probe, "TYPE"), kind = valueOf(probe, "PTTYPE");
    if (type.size() > 0 && volumes.size() < machined::kMostVolumes) {
      volumes.add(Volume{kj::mv(type), valueOf(probe, "LABEL")});
    }
    if (kind.size() > 0 && table.size() == 0) {
      table = tableOf(probe, kind);
      partitions = partitionsOf(probe);
    }
  }
  if (result < 0) fail(ErrorKind::kUnavailable, kUnreadable);
  out.setTable(table);
  fillTexts(out.initPartitions(static_cast<unsigned>(partitions.size())), partitions);
  auto list = out.initVolumes(static_cast<unsigned>(volumes.size()));
  for (auto i : kj::indices(volumes)) {
    list[i].setType(volumes[i].type);
    list[i].setLabel(volumes[i].label);
  }
}

}  // namespace talos::parse
