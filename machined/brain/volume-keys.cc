#include "machined/brain/volume-keys.h"

#include "common/base/error.h"
#include "machined/resources/store-records.h"
#include "rpc/types.capnp.h"

namespace talos::machined {
namespace {

using Status = rpc::VolumeStatusSpec;

struct Wishes {
  Encryption state = nullptr, ephemeral = nullptr;
};
Wishes wishesOf(config::Machine::Reader machine) {
  return {encryptionOfState(machine), encryptionOfEphemeral(machine)};
}
Wishes running(MachineConfigReader& reader, Store& store) {
  KJ_IF_MAYBE (machine, reader.tryMachine(store)) return wishesOf(*machine);
  return {};
}

// Of one that is not mounted nothing changes but the config.
kj::Promise<void> changeKeys(SystemPartitions& partitions, kj::Maybe<kj::String> node,
                             kj::StringPtr label, Encryption before, Encryption after,
                             KeyChangeExtent extent, ConfigKeeper::Persist persist, SayLine step) {
  KJ_IF_MAYBE (n, node) {
    return partitions.change(kj::mv(*n), label, before, after, extent, kj::mv(persist),
                             kj::mv(step));
  }
  return persist().attach(kj::mv(persist));
}

}  // namespace

void VolumeKeys::check(config::Config::Reader wanted, rpc::ApplyMode mode) {
  if (deps.container) return;
  auto next = wishesOf(wanted.getMachine());
  deps.partitions.check(kStateName, next.state);
  deps.partitions.check(kEphemeralName, next.ephemeral);
  if (mode != rpc::ApplyMode::NO_REBOOT) return;
  auto now = running(deps.reader, deps.store);
  KJ_IF_MAYBE (node, deps.mounted(kStateName)) {
    deps.partitions.checkChange(*node, kStateName, now.state, next.state);
  }
  KJ_IF_MAYBE (node, deps.mounted(kEphemeralName)) {
    deps.partitions.checkChange(*node, kEphemeralName, now.ephemeral, next.ephemeral);
  }
}

kj::Promise<void> VolumeKeys::persisting(config::Config::Reader wanted, rpc::ApplyMode mode,
                                         ConfigKeeper::Persist persist, ConfigKeeper::Step step) {
  if (deps.container) {
    co_await persist();
    co_return;
  }
  auto next = wishesOf(wanted.getMachine()), now = running(deps.reader, deps.store);
  auto extent = mode == rpc::ApplyMode::NO_REBOOT ? KeyChangeExtent::kWhole
                                                  : KeyChangeExtent::kUntilPersisted;
  auto tell = [&step](kj::StringPtr line) { step(line); };
  co_await changeKeys(
      deps.partitions, deps.mounted(kStateName), kStateName, now.state, next.state, extent,
      [&]() {
        return changeKeys(deps.partitions, deps.mounted(kEphemeralName), kEphemeralName,
                          now.ephemeral, next.ephemeral, extent, kj::mv(persist), tell);
      },
      tell);
}

kj::Promise<kj::String> VolumeKeys::newRecoveryKey(kj::String volume, unsigned slot) {
  auto now = running(deps.reader, deps.store);
  bool state = volume == kStateName;
  if (!state && volume != kEphemeralName) {
    fail(ErrorKind::kInvalidArgument,
         kj::str("\"", volume, "\" is not a volume that can be encrypted; use STATE or EPHEMERAL"));
  }
  KJ_IF_MAYBE (node, deps.mounted(state ? kStateName : kEphemeralName)) {
    return deps.partitions.newRecoveryKey(kj::mv(*node), state ? kStateName : kEphemeralName,
                                          state ? now.state : now.ephemeral, slot);
  }
  fail(ErrorKind::kFailedPrecondition,
       kj::str(volume, " is not mounted from a partition, so it has no keys"));
}

void putVolume(Store& store, kj::StringPtr label, const VolumeReport& report) {
  putRecord<Status>(store, label, [&](Status::Builder out) {
    out.setPhase(nameOf(report.phase));
    out.setLocation(report.location);
    out.setMountLocation(report.mountLocation);
    out.setFilesystem(report.fileSystem);
    out.setEncryptionProvider(report.encrypted ? "luks2" : "");
    KJ_IF_MAYBE (slot, report.slot) out.setEncryptionSlot(kj::str(*slot));
    out.setErrorMessage(report.error);
  });
}

void putVolumeKeys(Store& store, kj::StringPtr label, const KeysReport& report) {
  KJ_IF_MAYBE (there, store.tryGet<Status>(label)) {
    putRecord<Status>(store, label, [&](Status::Builder out) {
      out.setPhase(there->getPhase());
      out.setLocation(there->getLocation());
      out.setMountLocation(there->getMountLocation());
      out.setFilesystem(there->getFilesystem());
      out.setEncryptionProvider(there->getEncryptionProvider());
      out.setEncryptionSlot(there->getEncryptionSlot());
      out.setErrorMessage(there->getErrorMessage());
      auto slots = out.initEncryptionSlots(static_cast<unsigned>(report.slots.size()));
      for (unsigned i = 0; i < report.slots.size(); ++i) slots.set(i, report.slots[i]);
      out.setEncryptionKeys(report.keys);
    });
  }
}

}  // namespace talos::machined
