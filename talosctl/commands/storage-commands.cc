// disks; wipe disk; encryption recovery-key
#include "common/base/error.h"
#include "common/base/fill-list.h"
#include "common/memory/zeroize.h"
#include "common/text/foreign-text.h"
#include "common/text/size.h"
#include "talosctl/cli/progress-lines.h"
#include "talosctl/cli/standard-input.h"
#include "talosctl/client/long-calls.h"
#include "talosctl/client/received-bytes.h"
#include "talosctl/commands/all-commands.h"
#include "talosctl/commands/render-answers.h"

namespace talos::talosctl {

namespace {

using Disks = rpc::Storage::DisksResults;

kj::StringPtr nameOf(rpc::Disk::Type type) {
  switch (type) {
    case rpc::Disk::Type::SSD:
      return "SSD";
    case rpc::Disk::Type::HDD:
      return "HDD";
    case rpc::Disk::Type::NVME:
      return "NVME";
    case rpc::Disk::Type::SD:
      return "SD";
    case rpc::Disk::Type::UNKNOWN:
      break;
  }
  return "-";
}

kj::StringPtr orDash(kj::StringPtr text) {
  return text.size() == 0 ? "-"_kj : text;
}

kj::Promise<int> runDisks(Invocation& call) {
  return tabulate<Disks>(
      call,
      [](rpc::Node::Client node) {
        return node.storageRequest().send().getStorage().disksRequest().send();
      },
      [](Invocation&, kj::ArrayPtr<const Reply<Disks>> replies) { return renderDisks(replies); });
}

}  // namespace

kj::String renderDisks(kj::ArrayPtr<const Reply<Disks>> replies) {
  Table table(
      {"NODE", "DEV", "MODEL", "SERIAL", "TYPE", "UUID", "WWID", "MODALIAS", "NAME", "SIZE"});
  for (auto& r : replies) {
    for (auto d : r.value.getDisks()) {
      table.add(r.node, d.getDevice(), orDash(d.getModel()), orDash(d.getSerial()),
                nameOf(d.getType()), orDash(d.getUuid()), orDash(d.getWwid()),
                orDash(d.getModalias()), orDash(d.getName()), decimalSize(d.getSize()));
    }
  }
  return table.render();
}

namespace {

using WipeResults = rpc::Storage::WipeResults;

// All of a large disk is overwritten in a day or two.
constexpr auto kWiping = 7 * kj::DAYS;

kj::Promise<void> askWhetherToWipe(Invocation& call, kj::ArrayPtr<const kj::String> nodes) {
  if (call.on("yes") || !canAsk(call, "whether to wipe")) co_return;
  auto question =
      kj::str("wipe ", kj::strArray(call.arguments, ", "), " of ", kj::strArray(nodes, ", "), "?");
  if (co_await confirmed(call.deps, question)) co_return;
  fail(ErrorKind::kFailedPrecondition, "not confirmed; nothing was wiped");
}

kj::Promise<int> runWipeDisk(Invocation& call) {
  auto session = co_await openSession(call);
  co_await askWhetherToWipe(call, session->client.nodes());
  bool zeroes = call.text("method") == "ZEROES";
  Progress progress(call.deps.console, session->client.nodes());
  kj::Vector<kj::Own<ReceivedBytes>> received;
  auto answers = co_await askAll<WipeResults>(*session, [&](rpc::Node::Client node) {
    auto index = received.size();
    auto& lines = *received.add(
        kj::heap<ReceivedBytes>([&progress, index](kj::ArrayPtr<const kj::byte> bytes) {
          auto text = kj::heapString(bytes.asChars());
          progress.set(index,
                       printableText(text.slice(0, text.findFirst('\n').orDefault(text.size()))));
        }));
    auto request = node.storageRequest().send().getStorage().wipeRequest();
    fillTexts(request.initDevices(static_cast<unsigned>(call.arguments.size())), call.arguments);
    request.setZeroes(zeroes);
    request.setProgress(lines.sink());
    kj::Promise<capnp::Response<WipeResults>> answer = request.send();
    return whileAnswering(call.deps.timer, kj::mv(node), kj::mv(answer));
  });
  call.done = kj::str("wiped ", kj::strArray(call.arguments, ", "));
  co_return concludeDone(call, answers);
}

void addWipeCommand(Command& root) {
  auto& wipe = root.add("wipe", "Wipe disks and partitions");
  auto& disk = wipe.add("disk", "Wipe disks and partitions that nothing uses");
  disk.arguments = "<device>...";
  disk.least = 1;
  disk.most = kj::maxValue;
  disk.details =
      "The devices are named as in talosctl get discoveredvolumes: vdb, vdb1. All of them are "
      "checked before the first is wiped: a device is refused, with what uses it, if it or a "
      "partition on it is mounted, is swap, has a volume of the config or is part of another "
      "device; so are the disk of the system, disks of machine.disks and disks that are read-only. "
      "Asks for confirmation on a terminal.";
  disk.flag({.name = "method",
             .kind = FlagKind::kText,
             .fallback = "FAST",
             .help = "FAST: only the partition table, and the beginning and the end of the device "
                     "and of its partitions; ZEROES: all of it",
             .choices = {"FAST", "ZEROES"}});
  disk.flag({.name = "yes", .letter = "y", .help = "do not ask"});
  addOutputFlag(disk);
  disk.timeout = kWiping;
  disk.run = runWipeDisk;
}

}  // namespace

void addStorageCommands(Command& root) {
  auto& disks = root.add("disks", "List the disks of nodes");
  addOutputFlag(disks);
  addInsecureFlags(disks);
  disks.run = runDisks;
  addWipeCommand(root);
}

namespace {

using Results = rpc::Storage::NewRecoveryKeyResults;

constexpr uint32_t kSlots = 32;

// Two keys are derived, each for a second or more, after the derivations that are in progress on
// the node. If the deadline passes, the key may still be created, but then nothing has shown it to
// the user.
constexpr auto kDeriving = 5 * kj::MINUTES;

uint32_t slotOf(kj::StringPtr text) {
  KJ_IF_MAYBE (slot, text.tryParseAs<uint32_t>()) {
    if (*slot < kSlots) return *slot;
  }
  failUsage(kj::str("\"", text, "\" is not a valid key slot; must be 0 to 31"));
}

kj::Promise<int> runRecoveryKey(Invocation& call) {
  auto volume = kj::str(call.arguments[0]);
  auto slot = slotOf(call.arguments[1]);
  co_return co_await tabulate<Results>(
      call,
      [&volume, slot](rpc::Node::Client node) {
        auto request = node.storageRequest().send().getStorage().newRecoveryKeyRequest();
        request.setVolume(volume);
        request.setSlot(slot);
        return request.send();
      },
      [](Invocation&, kj::ArrayPtr<const Reply<Results>> replies) {
        return renderRecoveryKeys(replies);
      });
}

}  // namespace

kj::String renderRecoveryKeys(kj::ArrayPtr<const Reply<Results>> replies) {
  Table table({"NODE", "RECOVERY KEY"});
  for (auto& r : replies) table.add(r.node, r.value.getPassphrase());
  return table.render();
}

void addEncryptionCommands(Command& root) {
  auto& encryption = root.add("encryption", "Manage the keys of encrypted volumes");
  auto& recovery = encryption.add("recovery-key", "Make a recovery key for a volume, and show it");
  recovery.arguments = "<STATE|EPHEMERAL> <slot>";
  recovery.least = recovery.most = 2;
  recovery.argumentChoices = {{"STATE", "EPHEMERAL"}};
  recovery.details =
      "The config of the node must have {recovery: {}, slot: <slot>} among the keys of the volume. "
      "A key that the slot had before no longer opens the volume. The node does not store the new "
      "key: it is shown once.";
  addOutputFlag(recovery);
  recovery.timeout = kDeriving;
  recovery.run = runRecoveryKey;
}

}  // namespace talos::talosctl
