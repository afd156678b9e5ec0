// disks
#include "common/text/size.h"
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

void addStorageCommands(Command& root) {
  auto& disks = root.add("disks", "List the disks of nodes");
  addOutputFlag(disks);
  addInsecureFlags(disks);
  disks.run = runDisks;
}

}  // namespace talos::talosctl
