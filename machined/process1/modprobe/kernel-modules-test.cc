#include "machined/process1/modprobe/kernel-modules.h"

#include <errno.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "common/base/error.h"
#include "common/base/file.h"

namespace talos::machined {
namespace {

constexpr kj::StringPtr kDependencies =
    "kernel/net/core/failover.ko:\n"
    "kernel/drivers/net/net_failover.ko: kernel/net/core/failover.ko\n"
    "kernel/drivers/net/virtio_net.ko: kernel/drivers/net/net_failover.ko "
    "kernel/net/core/failover.ko\n"
    "kernel/drivers/md/dm-crypt.ko: kernel/drivers/md/dm-mod.ko\n"
    "kernel/drivers/md/dm-mod.ko:\n"
    "nonsense without a colon\n"
    ":\n"_kj;
constexpr kj::StringPtr kAliases =
    "# Aliases extracted from modules themselves.\n"
    "alias virtio:d00000001v* virtio_net\n"
    "alias dm-target-crypt dm_crypt\n"
    "alias cpu:type:x86* dm_crypt\n"
    "alias fs-nothing no_such_module\n"
    "alias of:N*T*Cfoo,barC* dm_mod\n"
    "alias broken\n"_kj;
constexpr kj::StringPtr kBuiltin =
    "kernel/drivers/virtio/virtio_pci.ko\nkernel/fs/ext4/ext4.ko\n"_kj;

kj::String filesOf(kj::StringPtr name) {
  ModuleIndex index(kDependencies, kAliases, kBuiltin);
  KJ_IF_MAYBE (found, index.find(name)) {
    return found->builtin ? kj::str("builtin") : kj::strArray(found->files, " ");
  }
  return kj::str("none");
}

// Catches: a module loaded before its dependencies; names that differ only in '-' and '_'.
TEST(ModuleIndex, Table) {
  struct Row {
    kj::StringPtr name, files;
  } rows[] = {
      {"virtio_net",
       "kernel/net/core/failover.ko kernel/drivers/net/net_failover.ko "
       "kernel/drivers/net/virtio_net.ko"},
      {"virtio:d00000001v00001AF4",
       "kernel/net/core/failover.ko kernel/drivers/net/net_failover.ko "
       "kernel/drivers/net/virtio_net.ko"},
      {"virtio:d00000002v00001AF4", "none"},
      {"dm-crypt", "kernel/drivers/md/dm-mod.ko kernel/drivers/md/dm-crypt.ko"},
      {"dm_crypt", "kernel/drivers/md/dm-mod.ko kernel/drivers/md/dm-crypt.ko"},
      {"dm-target-crypt", "kernel/drivers/md/dm-mod.ko kernel/drivers/md/dm-crypt.ko"},
      {"ext4", "builtin"},
      {"virtio-pci", "builtin"},
      {"fs-nothing", "none"},
      {"broken", "none"},
      {"", "none"},
  };
  for (auto& row : rows) EXPECT_EQ(row.files, filesOf(row.name)) << row.name.cStr();
}

TEST(ModuleIndex, EmptyIsAKernelWithEverythingBuiltIn) {
  ModuleIndex index("", "", "");
  EXPECT_TRUE(index.find("loop") == nullptr);
}

// Catches: links and bonds that appear because a module was loaded.
TEST(Modules, Parameters) {
  EXPECT_EQ("max_bonds=0"_kj,
            moduleParameters(plainModuleName("kernel/drivers/net/bonding/bonding.ko")));
  EXPECT_EQ("numdummies=0"_kj, moduleParameters("dummy"));
  EXPECT_EQ(""_kj, moduleParameters("xfs"));
}

// Catches: parameters that the kernel does not get; a default after the given value, which would
// replace it; a module that was already loaded and is reported as loaded now.
TEST(Modules, InsertsWithParameters) {
  char name[] = "/tmp/talos-modules-test-XXXXXX";
  ASSERT_NE(nullptr, mkdtemp(name));
  kj::StringPtr root = name;
  KJ_DEFER(removeTree(root));
  for (auto file : {"dummy.ko", "xfs.ko"}) {
    writeFileAtomically(kj::str(root, "/", file), kj::StringPtr("module"), 0644);
  }
  kj::String given;
  int answer = 0;
  Modules modules(kj::str(root), ModuleIndex("dummy.ko:\nxfs.ko:\n", "", ""),
                  [&](kj::StringPtr, kj::StringPtr, kj::StringPtr parameters) {
                    given = kj::str(parameters);
                    return answer;
                  });
  EXPECT_TRUE(modules.insert("dummy.ko", "numdummies=2 x"));
  EXPECT_EQ("numdummies=0 numdummies=2 x", given);
  EXPECT_TRUE(modules.load("dummy"));
  EXPECT_EQ("numdummies=0", given);
  EXPECT_TRUE(modules.insert("xfs.ko", "a=1"));
  EXPECT_EQ("a=1", given);
  answer = EEXIST;
  EXPECT_FALSE(modules.insert("xfs.ko"));
  answer = ENOEXEC;
  KJ_IF_MAYBE (e, kj::runCatchingExceptions([&] { modules.insert("xfs.ko"); })) {
    EXPECT_TRUE(messageOf(*e).endsWith("/xfs.ko: Exec format error")) << messageOf(*e).cStr();
  } else {
    ADD_FAILURE() << "a refused module counts as loaded";
  }
}

// Catches: parameters of the command line that a module does not get; a parameter of another
// module; one that replaces the config's.
TEST(Modules, ParametersOfTheCommandLine) {
  constexpr auto kLine =
      "ro nvme_core.io_timeout=7 nvme-core.x nvme_core_2.y=1 a=nvme_core.z=1 nvme_core "
      "usb_storage.quirks=0951:1666:u\n"_kj;
  EXPECT_EQ("io_timeout=7 x"_kj, parametersIn(kLine, "nvme_core"));
  EXPECT_EQ("quirks=0951:1666:u"_kj, parametersIn(kLine, "usb_storage"));
  EXPECT_EQ(""_kj, parametersIn(kLine, "xfs"));
  char name[] = "/tmp/talos-modules-test-XXXXXX";
  ASSERT_NE(nullptr, mkdtemp(name));
  kj::StringPtr root = name;
  KJ_DEFER(removeTree(root));
  writeFileAtomically(kj::str(root, "/nvme-core.ko"), kj::StringPtr("module"), 0644);
  kj::String given;
  Modules modules(
      kj::str(root), ModuleIndex("nvme-core.ko:\n", "", ""),
      [&](kj::StringPtr, kj::StringPtr, kj::StringPtr parameters) {
        given = kj::str(parameters);
        return 0;
      },
      kj::str(kLine));
  modules.load("nvme_core");
  EXPECT_EQ("io_timeout=7 x", given);
  modules.insert("nvme-core.ko", "io_timeout=9");
  EXPECT_EQ("io_timeout=7 x io_timeout=9", given);
}

// Catches: a processor without its modules for sensors and memory errors; a processor for which a
// dozen ciphers are loaded; a warning about a part that this machine does not have.
TEST(Modules, ThoseOfProcessors) {
  char name[] = "/tmp/talos-modules-test-XXXXXX";
  ASSERT_NE(nullptr, mkdtemp(name));
  kj::StringPtr root = name;
  KJ_DEFER(removeTree(root));
  constexpr kj::StringPtr kFiles[] = {
      "kernel/drivers/hwmon/coretemp.ko"_kj, "kernel/drivers/edac/skx_edac.ko"_kj,
      "kernel/drivers/edac/amd64_edac.ko"_kj, "kernel/drivers/acpi/nfit/nfit.ko"_kj,
      "kernel/arch/x86/crypto/aesni-intel.ko"_kj};
  for (auto file : kFiles) {
    auto path = kj::str(root, "/", file);
    makeDirectories(kj::heapString(path.slice(0, KJ_ASSERT_NONNULL(path.findLast('/')))));
    writeFileAtomically(path, file, 0644);
  }
  makeDirectories(kj::str(root, "/devices/system/cpu"));
  writeFileAtomically(kj::str(root, "/devices/system/cpu/modalias"), kj::StringPtr("cpu:x86\n"),
                      0644);
  kj::Vector<kj::String> inserted;
  int refusal = ENODEV;
  Modules modules(kj::str(root),
                  ModuleIndex("kernel/drivers/hwmon/coretemp.ko:\n"
                              "kernel/drivers/edac/skx_edac.ko: kernel/drivers/acpi/nfit/nfit.ko\n"
                              "kernel/drivers/edac/amd64_edac.ko:\n"
                              "kernel/drivers/acpi/nfit/nfit.ko:\n"
                              "kernel/arch/x86/crypto/aesni-intel.ko:\n",
                              "alias cpu:x* aesni_intel\nalias cpu:x* amd64_edac\n"
                              "alias cpu:x* skx_edac\nalias cpu:x* coretemp\n",
                              ""),
                  [&](kj::StringPtr, kj::StringPtr file, kj::StringPtr) {
                    inserted.add(plainModuleName(file));
                    return inserted.back() == "amd64_edac" ? refusal : 0;
                  });
  kj::Vector<kj::String> problems;
  auto coldplug = [&](kj::ArrayPtr<const kj::StringPtr> only = nullptr) {
    inserted.clear();
    modules.coldplug([&](kj::StringPtr problem) { problems.add(kj::str(problem)); }, only,
                     kj::str(root, "/devices"));
    return kj::strArray(inserted, " ");
  };
  EXPECT_EQ("amd64_edac nfit skx_edac coretemp", coldplug());
  EXPECT_EQ(0u, problems.size());
  refusal = ENOEXEC;
  EXPECT_EQ("amd64_edac nfit skx_edac coretemp", coldplug());
  ASSERT_EQ(1u, problems.size());
  EXPECT_TRUE(problems[0].endsWith("/amd64_edac.ko: Exec format error")) << problems[0].cStr();
  kj::StringPtr network[] = {"kernel/drivers/net/"_kj};
  EXPECT_EQ("", coldplug(network)) << "not before the network's";
}

// Catches: several modules for one device, of which the wanted are skipped for the last one.
TEST(ModuleIndex, TheModulesOfOneFolder) {
  ModuleIndex index("kernel/drivers/scsi/a.ko:\nkernel/drivers/net/b.ko:\nkernel/fs/c.ko:\n",
                    "alias pci:* a\nalias pci:* b\nalias pci:* c\n", "");
  kj::StringPtr scsi[] = {"kernel/drivers/scsi/"_kj}, md[] = {"kernel/drivers/md/"_kj};
  EXPECT_EQ(3u, KJ_ASSERT_NONNULL(index.find("pci:v1")).files.size());
  auto found = KJ_ASSERT_NONNULL(index.find("pci:v1", scsi));
  EXPECT_EQ("kernel/drivers/scsi/a.ko", kj::strArray(found.files, " "));
  EXPECT_TRUE(index.find("pci:v1", md) == nullptr);
}

// Catches: a device with a broken module because of which others get none; a link in sysfs that
// leads the walk in a circle.
TEST(Modules, ColdplugGoesOnAfterAFailure) {
  char name[] = "/tmp/talos-modules-test-XXXXXX";
  ASSERT_NE(nullptr, mkdtemp(name));
  kj::StringPtr root = name;
  KJ_DEFER(removeTree(root));
  for (auto device : {"a", "a/b", "c"}) {
    auto directory = kj::str(root, "/devices/", device);
    makeDirectories(directory);
    writeFileAtomically(kj::str(directory, "/modalias"),
                        kj::StringPtr("virtio:d00000001v00001AF4\n"), 0644);
  }
  makeDirectories(kj::str(root, "/devices/cpu"));
  writeFileAtomically(kj::str(root, "/devices/cpu/modalias"), kj::StringPtr("cpu:type:x86,ven\n"),
                      0644);
  ASSERT_EQ(0, symlink("..", kj::str(root, "/devices/a/b/subsystem").cStr()));
  Modules modules(kj::str(root), ModuleIndex(kDependencies, kAliases, kBuiltin));
  unsigned failures = 0;
  unsigned loaded = modules.coldplug(
      [&](kj::StringPtr problem) {
        ++failures;
        EXPECT_TRUE(problem.startsWith("cannot open the kernel module")) << problem.cStr();
      },
      nullptr, kj::str(root, "/devices"));
  EXPECT_EQ(3u, loaded) << "devices with a module, and none for the processor";
  EXPECT_EQ(3u, failures);
  kj::StringPtr blockOnly[] = {"kernel/drivers/block/"_kj, "kernel/drivers/scsi/"_kj};
  modules.coldplug([&](kj::StringPtr) { ++failures; }, blockOnly, kj::str(root, "/devices"));
  EXPECT_EQ(3u, failures) << "a network device is not a block device";
  EXPECT_FALSE(modules.load("unknown"));
  EXPECT_TRUE(modules.load("ext4"));
}

}  // namespace
}  // namespace talos::machined
