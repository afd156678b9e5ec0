#include "machined/disk/devices/system-disk.h"

#include <capnp/message.h>
#include <gtest/gtest.h>

#include <string>

#include "common/base/error.h"

namespace talos::machined {
namespace {

kj::Vector<DiskFacts> disks() {
  kj::Vector<DiskFacts> all;
  auto add = [&](kj::StringPtr name, uint64_t gigabytes, kj::StringPtr model, kj::StringPtr serial,
                 rpc::Disk::Type type, kj::StringPtr bus) {
    auto& disk = all.add();
    disk.name = kj::str(name);
    disk.bytes = gigabytes * 1'000'000'000;
    disk.model = kj::str(model);
    disk.serial = kj::str(serial);
    disk.wwid = kj::str("naa.", serial);
    disk.busPath = kj::str(bus);
    disk.type = type;
  };
  add("sda", 4000, "WDC WD40", "W1", rpc::Disk::Type::HDD,
      "/pci0/0000:00:17.0/ata1/host0/target0:0:0/0:0:0:0/");
  add("sdb", 500, "WDC Blue", "W2", rpc::Disk::Type::SSD,
      "/pci0/0000:00:17.0/ata2/host1/target1:0:0/1:0:0:0/");
  add("nvme0n1", 500, "Samsung", "S1", rpc::Disk::Type::NVME,
      "/pci0/0000:00:1d.0/0000:3d:00.0/nvme/nvme0/nvme0n1");
  return all;
}

// Returns "/dev/sda", with "+2" for two further matches; or the message.
std::string choose(kj::Function<void(config::Install::Builder)> fill) {
  capnp::MallocMessageBuilder message;
  auto install = message.initRoot<config::Install>();
  fill(install);
  std::string text;
  KJ_IF_MAYBE (e, kj::runCatchingExceptions([&] {
                 auto all = disks();
                 auto chosen = chooseSystemDisk(all, install.asReader());
                 text = chosen.path.cStr();
                 if (!chosen.others.empty()) text += "+" + std::to_string(chosen.others.size());
               })) {
    return messageOf(*e).cStr();
  }
  return text;
}
std::string select(kj::Function<void(config::DiskSelector::Builder)> fill) {
  return choose([&](config::Install::Builder install) {
    install.setDisk("/dev/sda");
    fill(install.initDiskSelector());
  });
}

constexpr const char* kThere =
    "the machine has /dev/sda (3814697 MiB, WDC WD40), /dev/sdb (476837 MiB, WDC Blue), "
    "/dev/nvme0n1 (476837 MiB, Samsung)";

}  // namespace

// Catches: another disk than the named one, and a partly matching name.
TEST(SystemDisk, ByPath) {
  EXPECT_EQ("/dev/sdb", choose([](auto install) { install.setDisk("/dev/sdb"); }));
  EXPECT_EQ(std::string("machine.install.disk: there is no disk /dev/sd; ") + kThere,
            choose([](auto install) { install.setDisk("/dev/sd"); }));
}

// Catches: a property that is ignored, a property that suffices although another does not match,
// and a selector that gives way to the path.
TEST(SystemDisk, BySelector) {
  EXPECT_EQ("/dev/nvme0n1", select([](auto s) { s.setName("nvme*"); }));
  EXPECT_EQ("/dev/sda+1", select([](auto s) { s.setModel("WDC*"); }));
  EXPECT_EQ("/dev/sdb", select([](auto s) { s.setSerial("W2"); }));
  EXPECT_EQ("/dev/nvme0n1", select([](auto s) { s.setWwid("naa.S*"); }));
  EXPECT_EQ("/dev/sdb+1", select([](auto s) { s.setSize("<= 1TB"); }));
  EXPECT_EQ("/dev/sda", select([](auto s) { s.setSize("> 500GB"); }));
  EXPECT_EQ("/dev/sdb", select([](auto s) { s.setType(config::DiskType::SSD); }));
  EXPECT_EQ("/dev/sdb", select([](auto s) {
              s.setModel("WDC*");
              s.setSize("< 1TB");
            }));
  EXPECT_EQ(std::string("machine.install.diskSelector: no disk matches; ") + kThere,
            select([](auto s) {
              s.setModel("WDC*");
              s.setType(config::DiskType::NVME);
            }));
  for (auto other : {0, 1}) {
    EXPECT_EQ(std::string("machine.install.diskSelector: no disk matches; ") + kThere,
              select([&](auto s) { other == 0 ? s.setModalias("x*") : s.setUuid("y"); }));
  }
}

// Catches: an expression that gives way to a path or a selector; a disk that it does not select, or
// that cannot be written.
TEST(SystemDisk, ByExpression) {
  auto match = [](kj::StringPtr text) {
    return choose([&](auto install) {
      install.setDisk("/dev/sda");
      install.setDiskMatch(text);
    });
  };
  EXPECT_EQ("/dev/nvme0n1", match("disk.transport == 'nvme'"));
  EXPECT_EQ("/dev/sdb+1", match("disk.size < 1u * TB && !system_disk"));
  EXPECT_EQ("/dev/sdb", match("disk.serial == 'W2'"));
  EXPECT_EQ(
      std::string("UnattendedInstallConfig.provisioning.diskSelector: no disk matches; ") + kThere,
      match("disk.rotational && disk.size < 1u * TB"));
  EXPECT_EQ(0u, match("disk.sise").find("UnattendedInstallConfig.provisioning.diskSelector: "));
  auto all = disks();
  all[0].readOnly = true;
  capnp::MallocMessageBuilder message;
  auto install = message.initRoot<config::Install>();
  install.setDiskMatch("disk.model.startsWith('WDC')");
  EXPECT_EQ("/dev/sdb", chooseSystemDisk(all, install.asReader()).path);
}

// Catches: a card that the config names like Talos, by the card's name, and that does not
// match; a card named as the kernel does; a disk without its own name that matches any.
TEST(SystemDisk, ByEitherName) {
  auto all = disks();
  auto& card = all.add();
  card.name = kj::str("mmcblk0");
  card.ownName = kj::str("SD64G");
  for (auto pattern : {"SD64G"_kj, "SD*"_kj, "mmcblk0"_kj, "mmcblk*"_kj}) {
    capnp::MallocMessageBuilder message;
    auto install = message.initRoot<config::Install>();
    install.initDiskSelector().setName(pattern);
    auto chosen = chooseSystemDisk(all, install.asReader());
    EXPECT_EQ(chosen.path, "/dev/mmcblk0") << pattern.cStr();
    EXPECT_EQ(chosen.others.size(), 0u) << pattern.cStr();
  }
}

// Catches: a pattern that matches the path as shown by one version of Talos but not by
// another, or that matches a part of the path.
TEST(SystemDisk, ByBusPath) {
  struct Row {
    kj::StringPtr pattern;
    const char* disk;
  } rows[] = {
      {"/pci0/0000:00:17.0/ata2/host1/target1:0:0/1:0:0:0/", "/dev/sdb"},
      {"/pci0/0000:00:17.0/ata2/host1/target1:0:0/1:0:0:0", "/dev/sdb"},
      {"/pci0/0000:00:17.0/*", "/dev/sda+1"},
      {"/pci0/0000:00:1d.0/*", "/dev/nvme0n1"},
      {"*/nvme/nvme0/nvme0n1", "/dev/nvme0n1"},
      {"/pci0/0000:00:1d.0/0000:3d:00.0/nvme", "/dev/nvme0n1"},
      {"/pci0/0000:00:1d.0/0000:3d:00.0/nvme/", "/dev/nvme0n1"},
      {"*/1:0:0:0/", "/dev/sdb"},
  };
  for (auto& row : rows) {
    EXPECT_EQ(row.disk, select([&](auto s) { s.setBusPath(row.pattern); })) << row.pattern.cStr();
  }
  for (auto none : {"/"_kj, "/pci0"_kj, "/pci0/0000:00:17.0/ata2"_kj, "pci0/*"_kj,
                    "/pci0/0000:00:17.0/ata1/host0"_kj}) {
    EXPECT_EQ(std::string("machine.install.diskSelector: no disk matches; ") + kThere,
              select([&](auto s) { s.setBusPath(none); }))
        << none.cStr();
  }
}

}  // namespace talos::machined
