// System extensions on a machine: one that starts from a disk whose image has them, and is then
// upgraded to images with damaged ones, with others and with none.
#include <gmock/gmock.h>
#include <kj/debug.h>
#include <kj/io.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <optional>
#include <regex>

#include "tests/vm/lone-machine.h"

namespace talos::vm {
namespace {

using harness::contains;
using harness::eventually;
using testing::HasSubstr;
namespace fs = std::filesystem;

constexpr double kUp = 480;  // emulated, beside whatever else runs
constexpr uintmax_t kIscsiDisk = 48ull << 20;

std::string env(const char* name) {
  const char* value = getenv(name);
  KJ_REQUIRE(value != nullptr, "set by ctest", name);
  return value;
}

std::string must(const std::vector<std::string>& words) {
  auto result = harness::run(words, 600);
  KJ_REQUIRE(result.status == 0, words[0].c_str(), result.out.c_str(), result.err.c_str());
  return result.out;
}

// Sends a request to the agent in a machine, through the port of the hypervisor. Returns its
// answer, or the part that has come within a minute.
std::string askAgent(const std::string& path, const std::string& request) {
  struct sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  KJ_REQUIRE(path.size() < sizeof(address.sun_path), path.c_str());
  memcpy(address.sun_path, path.data(), path.size());
  int raw;
  KJ_SYSCALL(raw = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  kj::AutoCloseFd fd(raw);
  KJ_SYSCALL(connect(fd, reinterpret_cast<struct sockaddr*>(&address), sizeof(address)));
  KJ_REQUIRE(write(fd, request.data(), request.size()) == ssize_t(request.size()));
  std::string answer;
  while (!contains(answer, "\n")) {
    struct pollfd readable = {fd, POLLIN, 0};
    char bytes[4096];
    ssize_t size = poll(&readable, 1, 60'000) == 1 ? read(fd, bytes, sizeof bytes) : 0;
    if (size <= 0) break;
    answer.append(bytes, size_t(size));
  }
  return answer;
}

// Images with extensions, made as `make installer-image EXTENSIONS=` makes them.
class ExtensionImages {
 public:
  ExtensionImages() {
    auto pattern = (fs::temp_directory_path() / "talos-extensions-XXXXXX").string();
    folder = mkdtemp(pattern.data());
    for (auto name : {"iscsi-tools", "qemu-guest-agent"}) {
      must({env("ROOTFS") + "/make-extension.sh", name, path(std::string(name) + ".tar")});
    }
  }
  ~ExtensionImages() { fs::remove_all(folder); }
  ExtensionImages(const ExtensionImages&) = delete;

  std::string path(const std::string& name) const { return folder + "/" + name; }

  // Makes the image in a folder, with these extensions: archives or folders.
  std::string image(const std::string& name, const std::vector<std::string>& extensions) const {
    auto given = path(name + "-given"), image = path(name);
    std::vector<std::string> copy = {env("ROOTFS") + "/given-extensions.sh", given};
    copy.insert(copy.end(), extensions.begin(), extensions.end());
    must(copy);
    fs::create_directories(image);
    must({"cp", "-a", env("IMAGE") + "/parts", image + "/parts"});
    must({"env", "EXTENSIONS=" + (extensions.empty() ? "" : given), "BRIEF=1",
          env("ROOTFS") + "/image.sh", "/", env("OUT"), image});
    return image;
  }
  // Changes a byte of the last layer in a copy of an installer image. Returns its archive. If it is
  // `listed`, the list of digests is that of the changed files, as an attacker without the key of a
  // signature could write it.
  std::string tampered(const std::string& archive, const std::string& name, bool listed) const {
    auto layout = path(name + "-layout"), files = path(name + "-files"), tar = path(name + ".tar");
    must({"skopeo", "copy", "oci-archive:" + archive, "oci:" + layout + ":x"});
    must({"umoci", "raw", "unpack", "--image", layout + ":x", files});
    auto install = files + "/usr/install";
    must({"sh", "-euc",
          "cd " + install +
              " && at=$(grep -abo hsqs initramfs | tail -n 1 | cut -d: -f1) && "
              "printf x | dd of=initramfs bs=1 seek=$((at + 200)) conv=notrunc status=none" +
              (listed ? " && sed -i '/ initramfs$/d' SHA256SUMS && sha256sum initramfs >>SHA256SUMS"
                      : "")});
    for (auto file : {"initramfs", "SHA256SUMS"}) {
      must({"umoci", "insert", "--image", layout + ":x", install + "/" + file,
            std::string("/usr/install/") + file});
    }
    must({"skopeo", "copy", "oci:" + layout + ":x", "oci-archive:" + tar});
    fs::remove_all(files);
    fs::remove_all(layout);
    return tar;
  }
  // Makes an installer image of it.
  std::string archive(const std::string& image, const std::string& version) const {
    auto tar = path(version + ".tar");
    must({"env", "VERSION=" + version, env("ROOTFS") + "/installer.sh", image, tar});
    return tar;
  }
  // Makes an extension of one service without a program of Debian's: busybox, which prints its
  // variables and its file, and waits.
  std::string probe(const std::string& version) const {
    auto extension = path("probe-" + version), tree = extension + "/rootfs/usr/local";
    fs::create_directories(tree + "/lib/containers/probe/bin");
    fs::create_directories(tree + "/etc/containers");
    fs::create_directories(tree + "/share/probe");
    std::ofstream(tree + "/share/probe/" + version) << "a file of the extension\n";
    fs::copy_file(env("BUSYBOX"), tree + "/lib/containers/probe/bin/sh");
    std::ofstream(extension + "/manifest.yaml")
        << "version: v1alpha1\nmetadata: {name: probe, version: " << version
        << ", compatibility: {talos: {version: \">= v0.1.0\"}}}\n";
    std::ofstream(tree + "/etc/containers/probe.yaml")
        << "name: probe\n"
           "container:\n"
           "  entrypoint: ./bin/sh\n"
           "  args: [-c, 'echo \"LEVEL is $LEVEL\"; read line </etc/probe.conf && echo "
           "\"file: $line\"; echo x >/new && echo wrote; trap \"exit 0\" TERM; "
           "while :; do read -t 1 x </dev/zero; done']\n"
           "  environment: [LEVEL=usual]\n"
           "restart: always\n";
    return extension;
  }

 private:
  std::string folder;
};

// A target in user space, Debian's tgt, on the loopback of this test's network, which a machine has
// at 10.0.2.2.
class Target {
 public:
  explicit Target(const std::string& folder) : folder(folder), control(folder + "/tgt") {
    process.emplace(std::vector<std::string>{"env", "TGT_IPC_SOCKET=" + control, "tgtd", "-f",
                                             "--iscsi", "portal=127.0.0.1:3260"});
    KJ_REQUIRE(
        eventually([&] { return run({"--op", "show", "--mode", "system"}).status == 0; }, 60),
        process->err().c_str());
    std::ofstream(folder + "/iscsi-disk").close();
    fs::resize_file(folder + "/iscsi-disk", kIscsiDisk);
    require({"--op", "new", "--mode", "target", "--tid", "1", "--targetname",
             "iqn.2026-01.example:disk1"});
    require({"--op", "new", "--mode", "logicalunit", "--tid", "1", "--lun", "1", "--backing-store",
             folder + "/iscsi-disk"});
    require({"--op", "bind", "--mode", "target", "--tid", "1", "--initiator-address", "ALL"});
  }
  std::string connections() const {
    return run({"--op", "show", "--mode", "conn", "--tid", "1"}).out;
  }

 private:
  std::string folder, control;
  std::optional<harness::Background> process;

  harness::Result run(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), {"tgtadm", "--lld", "iscsi"});
    return harness::run(arguments, 30, {"TGT_IPC_SOCKET=" + control});
  }
  void require(std::vector<std::string> arguments) const {
    auto result = run(std::move(arguments));
    KJ_REQUIRE(result.status == 0, result.out.c_str(), result.err.c_str());
  }
};

// The machine of these tests.
class Extended : public testing::Test {
 protected:
  ~Extended() noexcept override {}
  ExtensionImages images;

  static std::string services(LoneMachine& machine) { return machine.at({"services"}).out; }
  static bool isIn(LoneMachine& machine, const std::string& service, const std::string& state) {
    return std::regex_search(services(machine), std::regex(service + " +" + state));
  }
  static void waitFor(LoneMachine& machine, const std::string& service, const std::string& state) {
    ASSERT_TRUE(eventually([&] { return isIn(machine, service, state); }, kUp, 1))
        << services(machine) << machine.at({"service", service}).out
        << machine.at({"logs", service}).out << machine.console();
  }
  static void waitForLog(LoneMachine& machine, const std::string& service,
                         const std::string& text) {
    ASSERT_TRUE(
        eventually([&] { return contains(machine.at({"logs", service}).out, text); }, kUp, 1))
        << machine.at({"service", service}).out << machine.at({"logs", service}).out;
  }
  static harness::Result upgrade(LoneMachine& machine, const std::string& archive) {
    return harness::run(
        {env("TALOSCTL"), "--talosconfig", machine.path("talosconfig"), "-e", machine.address, "-n",
         machine.address, "upgrade", "--image", archive, "--force", "--preserve"},
        4 * kUp);
  }
  static void patch(LoneMachine& machine, const std::string& document) {
    std::ofstream(machine.path("patch.yaml")) << document;
    auto patched = machine.at(
        {"patch", "mc", "--mode=no-reboot", "--no-trial", "-p", "@" + machine.path("patch.yaml")});
    ASSERT_EQ(patched.status, 0) << patched.out << patched.err;
  }
};

// Catches: an extension without its files, or whose service does not run, does not get its
// document, is not restarted after its end; an initiator that attaches no disk; an agent that the
// hypervisor cannot reach.
TEST_F(Extended, AMachineHasTheExtensionsOfItsImage) {
  auto image = images.image("first", {images.probe("v1"), images.path("iscsi-tools.tar"),
                                      images.path("qemu-guest-agent.tar")});
  Target target(images.path(""));
  std::string agent;
  LoneMachine machine(
      {.disk = LoneMachine::writtenDisk(image),
       .beforeItStarts = [&](LoneMachine& self, LoneMachine::Hardware& hardware) {
         agent = self.path("agent");
         hardware.more = {"-device",  "virtio-serial",
                          "-chardev", "socket,id=agent,server=on,wait=off,path=" + agent,
                          "-device",  "virtserialport,chardev=agent,name=org.qemu.guest_agent.0"};
       }});
  ASSERT_NO_FATAL_FAILURE(machine.configure(
      machine.generate() +
      "---\napiVersion: v1alpha1\nkind: ExtensionServiceConfig\nname: iscsi-login\n"
      "environment: [\"PORTAL=10.0.2.2:3260\", TARGET=iqn.2026-01.example:disk1]\n"));
  auto list = machine.at({"get", "extensions"}).out;
  EXPECT_THAT(list, testing::ContainsRegex(" 0 .* probe +v1\n"));
  EXPECT_THAT(list, testing::ContainsRegex(" 1 .* iscsi-tools +2"));
  EXPECT_EQ(machine.at({"read", "/usr/local/share/probe/v1"}).out, "a file of the extension\n");
  EXPECT_THAT(machine.at({"read", "/etc/extensions.yaml"}).out, HasSubstr("name: iscsi-tools"));

  ASSERT_NO_FATAL_FAILURE(waitFor(machine, "ext-probe", "Running"));
  ASSERT_NO_FATAL_FAILURE(waitForLog(machine, "ext-probe", "LEVEL is usual"));
  EXPECT_FALSE(contains(machine.at({"logs", "ext-probe"}).out, "wrote")) << "its root is writable";
  ASSERT_NO_FATAL_FAILURE(
      patch(machine,
            "apiVersion: v1alpha1\nkind: ExtensionServiceConfig\nname: probe\n"
            "environment: [LEVEL=high]\n"
            "configFiles: [{content: \"from the config\\n\", mountPath: /etc/probe.conf}]\n"));
  ASSERT_NO_FATAL_FAILURE(waitForLog(machine, "ext-probe", "LEVEL is high"));
  ASSERT_NO_FATAL_FAILURE(waitForLog(machine, "ext-probe", "file: from the config"));
  EXPECT_THAT(machine.at({"get", "extensionserviceconfigstatuses"}).out, HasSubstr("probe"));
  ASSERT_NO_FATAL_FAILURE(waitFor(machine, "ext-probe", "Running"));
  auto killed = machine.at({"service", "ext-probe", "kill", "--signal", "KILL"});
  EXPECT_EQ(killed.status, 0) << killed.err;
  ASSERT_TRUE(eventually(
      [&] {
        return contains(machine.at({"service", "ext-probe"}).out,
                        "killed by signal 9 (Killed); restarting");
      },
      kUp, 1))
      << machine.at({"service", "ext-probe"}).out;
  ASSERT_NO_FATAL_FAILURE(waitFor(machine, "ext-probe", "Running"));

  ASSERT_NO_FATAL_FAILURE(waitFor(machine, "ext-iscsi-name", "Finished"));
  ASSERT_NO_FATAL_FAILURE(waitFor(machine, "ext-iscsid", "Running"));
  ASSERT_NO_FATAL_FAILURE(waitFor(machine, "ext-iscsi-login", "Finished"));
  EXPECT_TRUE(eventually([&] { return contains(machine.at({"disks"}).out, "50 MB"); }, kUp, 1))
      << machine.at({"disks"}).out;
  EXPECT_THAT(target.connections(), HasSubstr("iqn"));

  ASSERT_NO_FATAL_FAILURE(waitFor(machine, "ext-qemu-guest-agent", "Running"));
  EXPECT_THAT(askAgent(agent, "{\"execute\":\"guest-network-get-interfaces\"}\n"),
              HasSubstr("10.0.2.15"));
}

// Catches: a damaged layer that runs, or that stops a machine for good; an extension that stays
// after it was left out, or does not come with an upgrade.
TEST_F(Extended, UpgradesBringExtensionsAndTakeThemAway) {
  auto first = images.image("first", {images.probe("v1")});
  auto second = images.archive(images.image("second", {images.probe("v2")}), "v9.9.2");
  auto none = images.archive(images.image("none", {}), "v9.9.4");
  LoneMachine machine({.disk = LoneMachine::writtenDisk(first)});
  ASSERT_NO_FATAL_FAILURE(machine.configure(machine.generate()));
  ASSERT_NO_FATAL_FAILURE(waitFor(machine, "ext-probe", "Running"));
  EXPECT_THAT(machine.at({"get", "extensions"}).out, testing::ContainsRegex("probe +v1"));

  auto refused = upgrade(machine, images.tampered(second, "refused", false));
  EXPECT_NE(refused.status, 0);
  EXPECT_THAT(refused.err, HasSubstr("initramfs is damaged or cut off: its SHA-256 is"));
  auto fallen = upgrade(machine, images.tampered(second, "fallen", true));
  EXPECT_NE(fallen.status, 0) << fallen.err;
  EXPECT_THAT(machine.console(), HasSubstr("of a system extension is damaged: its SHA-256 is"));
  EXPECT_THAT(machine.at({"get", "extensions"}).out, testing::ContainsRegex("probe +v1"));

  auto upgraded = upgrade(machine, second);
  EXPECT_EQ(upgraded.status, 0) << upgraded.err << machine.console();
  ASSERT_NO_FATAL_FAILURE(waitFor(machine, "ext-probe", "Running"));
  EXPECT_THAT(machine.at({"get", "extensions"}).out, testing::ContainsRegex("probe +v2"));
  EXPECT_THAT(machine.at({"read", "/usr/local/share/probe/v1"}).err, HasSubstr("no such file"));

  auto removed = upgrade(machine, none);
  EXPECT_EQ(removed.status, 0) << removed.err << machine.console();
  EXPECT_FALSE(contains(machine.at({"get", "extensions"}).out, "probe"));
  EXPECT_FALSE(contains(services(machine), "ext-probe"));
}

}  // namespace
}  // namespace talos::vm
