#include "machined/upgrade/boot-slot-client.h"

#include "common/base/error.h"
#include "common/base/folder.h"
#include "common/disk/empty-partition.h"

namespace talos::machined {
namespace {

using install::nameOf;
using install::Slot;

Slot slotFrom(kj::StringPtr name) {
  KJ_IF_MAYBE (slot, install::slotNamed(name)) return *slot;
  fail(ErrorKind::kInternal, kj::str("the installer names the slot \"", name, "\""));
}

// Fills `out`, a request or a part of one that concerns an image.
template <typename Request>
void fillImage(Request out, const ImageView& view) {
  auto image = out.initImage();
  image.setType(view.type);
  image.setSource(view.source);
  auto options = image.initOptions(view.options.size());
  for (auto i : kj::indices(view.options)) options.set(i, view.options[i]);
}

template <typename Request>
void fillImage(Request out, const ImageArchive& archive) {
  auto parts = out.initParts(archive.parts.size());
  for (auto i : kj::indices(archive.parts)) {
    parts[i].setName(archive.parts[i].name);
    parts[i].setOffset(archive.parts[i].offset);
    parts[i].setSize(archive.parts[i].size);
  }
}

template <typename Request, typename Content>
void fillUpgrade(Request out, const Content& content, kj::StringPtr boot, kj::StringPtr slot,
                 kj::StringPtr arguments) {
  out.setDevice(boot);
  out.setSlot(slot);
  out.setArguments(arguments);
  fillImage(out, content);
}

int archiveOf(const NewSystem& system) {
  KJ_IF_MAYBE (archive, system.tryGet<ImageArchive>()) return archive->descriptor();
  return -1;
}

}  // namespace

kj::String partitionOfSystem(kj::ArrayPtr<const BlockDevice> devices, kj::StringPtr name) {
  auto on = [&](kj::StringPtr disk, kj::StringPtr label) -> kj::Maybe<const BlockDevice&> {
    for (auto& d : devices) {
      if (d.disk == disk && d.partitionName == label) return d;
    }
    return nullptr;
  };
  kj::Maybe<kj::StringPtr> disk;
  for (auto& d : devices) {
    if (d.partitionName != "STATE" || on(d.disk, "BOOT") == nullptr) continue;
    if (disk != nullptr) {
      fail(ErrorKind::kFailedPrecondition,
           "more than one disk has the partitions STATE and BOOT; remove those that are not this "
           "node's");
    }
    disk = d.disk.asPtr();
  }
  KJ_IF_MAYBE (chosen, disk) {
    KJ_IF_MAYBE (found, on(*chosen, name)) return found->node();
    fail(ErrorKind::kFailedPrecondition, kj::str("/dev/", *chosen, " has no partition ", name));
  }
  fail(ErrorKind::kFailedPrecondition, "no disk has the partitions STATE and BOOT");
}

kj::Promise<kj::String> UpgradePartitions::partition(kj::StringPtr name) {
  auto all = co_await devices();
  co_return partitionOfSystem(all, name);
}

kj::Promise<void> UpgradePartitions::empty(kj::String ephemeral) {
  return installer.clear(kj::mv(ephemeral), kEmptyHead);
}

kj::Promise<void> UpgradeFolders::empty(kj::String ephemeral) {
  return blocking([folder = kj::mv(ephemeral)]() { emptyFolder(folder); });
}

kj::Promise<install::SlotsOnDisk> BootSlots::look() {
  auto boot = co_await place();
  install::SlotsOnDisk result;
  co_await installer.slots([&](rpc::InstallRequest::Builder request) { request.setSlots(boot); },
                           [&](rpc::Slots::Reader found) {
                             result.state.confirmed = slotFrom(found.getConfirmed());
                             if (found.getAttempt().size() > 0)
                               result.state.attempt = slotFrom(found.getAttempt());
                             result.state.tries = found.getTries();
                             for (auto system : found.getSystems()) {
                               result.systems.add(install::WholeSystem{
                                   slotFrom(system.getSlot()), kj::str(system.getVersion())});
                             }
                           });
  co_return kj::mv(result);
}

kj::Promise<void> BootSlots::choose(Slot confirmed, kj::Maybe<Slot> attempt,
                                    unsigned healthTimeoutS) {
  auto boot = co_await place();
  co_await installer.slots(
      [&](rpc::InstallRequest::Builder request) {
        auto choose = request.initChoose();
        choose.setDevice(boot);
        choose.setConfirmed(nameOf(confirmed));
        KJ_IF_MAYBE (slot, attempt) choose.setAttempt(nameOf(*slot));
        choose.setHealthTimeoutS(healthTimeoutS);
      },
      [](rpc::Slots::Reader) {});
}

kj::Promise<kj::String> BootSlots::write(Slot slot, const NewSystem& system, kj::String arguments) {
  auto boot = co_await place();
  kj::String version;
  co_await installer.slots(
      [&](rpc::InstallRequest::Builder request) {
        KJ_SWITCH_ONEOF(system) {
          KJ_CASE_ONEOF(view, ImageView) {
            fillUpgrade(request.initUpgrade(), view, boot, nameOf(slot), arguments);
          }
          KJ_CASE_ONEOF(parts, ImageArchive) {
            fillUpgrade(request.initUpgradeFrom(), parts, boot, nameOf(slot), arguments);
          }
        }
      },
      [&](rpc::Slots::Reader found) {
        for (auto each : found.getSystems()) {
          if (each.getSlot() == nameOf(slot)) version = kj::str(each.getVersion());
        }
      },
      archiveOf(system));
  co_return kj::mv(version);
}

kj::Promise<BootSlots::Facts> BootSlots::factsOf(const NewSystem& system) {
  Facts facts;
  co_await installer.slots(
      [&](rpc::InstallRequest::Builder request) {
        KJ_SWITCH_ONEOF(system) {
          KJ_CASE_ONEOF(view, ImageView) {
            fillImage(request.initVersion(), view);
          }
          KJ_CASE_ONEOF(parts, ImageArchive) {
            fillImage(request.initVersion(), parts);
          }
        }
      },
      [&](rpc::Slots::Reader found) {
        facts.version = kj::str(found.getImage());
        facts.configKeys = kj::str(found.getConfigKeys());
      },
      archiveOf(system));
  co_return kj::mv(facts);
}

}  // namespace talos::machined
