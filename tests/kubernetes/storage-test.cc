// NFS servers of the network, mounted by virtual machines (storage.h), and by a node in a
// container.
#include <gmock/gmock.h>
#include <kj/debug.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <regex>
#include <string>

#include "tests/kubernetes/kube-cluster.h"
#include "tests/kubernetes/storage.h"

namespace talos {
namespace {

using harness::contains;
using harness::eventually;
using testing::HasSubstr;
using testing::Not;

namespace fs = std::filesystem;

constexpr const char* kSettings = R"(NFS_CORE_PARAM {
  Protocols = 4;
  NFS_Port = 2049;
  Enable_NLM = false;
  Enable_RQUOTA = false;
  Enable_UDP = false;
  allow_set_io_flusher_fail = true;  # it needs a right that hosts may lack
}
NFSv4 {
  Graceless = true;  # clients of earlier servers are gone
  Only_Numeric_Owners = true;
  Minor_Versions = 1, 2;
  RecoveryRoot = "@/recovery";
}
EXPORT {
  Export_Id = 1;
  Path = "@/data";
  Pseudo = /data;
  Access_Type = RW;
  Squash = No_Root_Squash;
  SecType = sys;
  Protocols = 4;
  FSAL { Name = VFS; }
}
)";

void signalAll(const std::string& settings, int number) {
  for (int pid : harness::processesWith(settings)) kill(pid, number);
}

// An NFS server in user space, Debian's nfs-ganesha, in the network of a local cluster: NFS 4.1 and
// 4.2 at the gateway's address, as kernels of nodes and of no host mount it. It has one export,
// /data, with the owners as numbers and root as root, and ends with the object.
class NfsServer {
 public:
  // Throws with its log if it does not listen within 60 s.
  explicit NfsServer(const KubeCluster& cluster);
  ~NfsServer();
  NfsServer(const NfsServer&) = delete;

  // Returns the folder of /data.
  const std::string& folder() const { return data; }
  // Makes the server keep its connections and answer nothing, as one whose disk or network is gone.
  void freeze() const;
  void thaw() const;

 private:
  std::string home, data;
  std::unique_ptr<harness::Background> process;
};

NfsServer::NfsServer(const KubeCluster& cluster) {
  // Not below /tmp, which is in memory: the server finds no identity of such a file system.
  auto pattern = fs::current_path().string() + "/nfs-XXXXXX";
  KJ_REQUIRE(mkdtemp(pattern.data()) != nullptr, pattern.c_str());
  home = pattern;
  data = home + "/data";
  fs::create_directories(data);
  fs::permissions(data, fs::perms::all);
  fs::create_directories(home + "/recovery");
  std::string settings = kSettings;
  for (size_t at; (at = settings.find('@')) != std::string::npos;) settings.replace(at, 1, home);
  std::ofstream(home + "/settings") << settings;
  process = std::make_unique<harness::Background>(std::vector<std::string>{
      "nsenter", "--net=/proc/" + std::to_string(cluster.segment()) + "/ns/net", "ganesha.nfsd",
      "-F", "-L", home + "/log", "-p", home + "/pid", "-f", home + "/settings"});
  auto log = [&] { return harness::slurp(home + "/log"); };
  bool listening =
      harness::eventually([&] { return harness::contains(log(), "NFS SERVER INITIALIZED"); }, 60);
  if (listening) return;
  auto text = log();
  process = nullptr;
  fs::remove_all(home);
  KJ_FAIL_REQUIRE("the NFS server did not start", text.c_str());
}

NfsServer::~NfsServer() {
  thaw();
  process = nullptr;
  std::error_code ignored;
  fs::remove_all(home, ignored);
}

void NfsServer::freeze() const {
  signalAll(home + "/settings", SIGSTOP);
}

void NfsServer::thaw() const {
  signalAll(home + "/settings", SIGCONT);
}

constexpr double kAnswers = 30;  // seconds, emulated on a busy machine
// 30 s for the kubelet, 90 s for its pods, and the timeout of process 1; then a boot.
constexpr double kRebootsInSpite = 420;

constexpr const char* kClaim = R"(apiVersion: v1
kind: PersistentVolume
metadata: {name: shared}
spec:
  capacity: {storage: 1Gi}
  accessModes: [ReadWriteMany]
  mountOptions: [nfsvers=4.2]
  storageClassName: ""
  nfs: {server: 10.5.0.1, path: /data}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: shared}
spec:
  accessModes: [ReadWriteMany]
  storageClassName: ""
  volumeName: shared
  resources: {requests: {storage: 1Gi}}
)";

constexpr const char* kInline = "nfs: {server: 10.5.0.1, path: /data}";

// Factor of all timeouts when the control plane is emulated as well.
constexpr double kEmulated = 4;

class SharedVolume : public Storage {
 protected:
  // Shares a volume between two pods, on these nodes or on the same one.
  void share(const KubeNode& first, const KubeNode& second);
};

}  // namespace

void SharedVolume::share(const KubeNode& first, const KubeNode& second) {
  NfsServer server(*cluster);
  cluster->apply(kClaim);
  cluster->apply(
      pod("writer", first, "echo written >/data/file && echo done && sleep 100000", kInline));
  ASSERT_TRUE(logHas("writer", "done")) << cluster->overview();
  EXPECT_EQ(harness::slurp(server.folder() + "/file"), "written\n");
  struct stat info = {};
  ASSERT_EQ(stat((server.folder() + "/file").c_str(), &info), 0);
  EXPECT_EQ(info.st_uid, 1000u);
  EXPECT_THAT(mounts(first), HasSubstr(" nfs4 "));

  cluster->apply(pod("reader", second, "cat /data/file && sleep 100000",
                     "persistentVolumeClaim: {claimName: shared}"));
  ASSERT_TRUE(logHas("reader", "written")) << cluster->overview();
  EXPECT_THAT(mounts(second), HasSubstr("vers=4.2"));

  cluster->ok({"delete", "pod", "writer", "reader",
               "--timeout=" + std::to_string(int(kGone * slowness)) + "s"},
              kGone * slowness + 30);
  for (auto* node : {&first, &second}) {
    EXPECT_TRUE(eventually([&] { return !contains(mounts(*node), " nfs4 "); }, kGone * slowness, 1))
        << mounts(*node);
  }

  cluster->apply(
      pod("refused", first, "sleep 100000", "nfs: {server: 10.5.0.1, path: /elsewhere}"));
  std::string events;
  EXPECT_TRUE(mountFailsWith("refused", "mount.nfs: mounting 10.5.0.1:/elsewhere failed", events))
      << events;
}

// Catches: a kernel or a kubelet's image that lacks the client; a mount in the kubelet's container
// that neither containerd nor pods see; owners that arrive as `nobody`; a volume that stays mounted
// after its pod; a server that refuses, and no event says so.
TEST_F(SharedVolume, OnVirtualMachines) {
  create(2);
  if (!HasFailure()) share(worker(1), worker(2));
}

// Catches: a mount that needs a right or a device which a node in a container lacks; a mount in the
// network of the host, where no server is. Uses one node, because guest.sh emulates all of it on a
// kernel that has the client.
TEST_F(SharedVolume, OnContainers) {
  harness::run({"modprobe", "nfsv4"});
  TALOS_NEEDS(contains(harness::slurp("/proc/filesystems"), "\tnfs4\n"), "nfs4",
              "the kernel has no client of NFS");
  slowness = kEmulated;
  createContainers(0);
  if (!HasFailure()) share(cluster->nodes[0], cluster->nodes[0]);
}

// Catches: one server that is away, and a node whose mounts cannot be listed, or that hangs on its
// way down, or leaves its own disk as a power cut would.
TEST_F(Storage, ServerThatIsAwayDoesNotKeepTheNode) {
  create(1, {"--with-bootloader"});
  if (HasFailure()) return;
  NfsServer server(*cluster);
  cluster->apply(pod("stuck", worker(1),
                     "exec 3>/data/file; echo open; until [ -e /tmp/go ]; do sleep 1; done;"
                     " dd if=/dev/zero bs=64k count=16 >&3; sleep 100000",
                     kInline));
  ASSERT_TRUE(logHas("stuck", "open")) << cluster->overview();
  server.freeze();
  cluster->ok({"exec", "stuck", "--", "sh", "-c", "echo >/tmp/go"});
  // The program waits for the server, with its writes in memory, and no signal ends it.
  auto waits = [&] {
    auto processes = cluster->talos.talosctl(cluster->at(worker(1), {"processes"})).out;
    return std::regex_search(processes, std::regex(" D +[0-9].*dd if=/dev/zero"));
  };
  ASSERT_TRUE(eventually(waits, kAnswers, 1));

  auto listed = cluster->talos.talosctl(cluster->at(worker(1), {"mounts"}), kAnswers);
  EXPECT_EQ(listed.status, 0) << listed.err;
  EXPECT_THAT(listed.out, HasSubstr("10.5.0.1:/data"));
  EXPECT_THAT(listed.out, HasSubstr("/var"));

  auto before = cluster->bootId(worker(1));
  auto reboot = cluster->talos.talosctl(cluster->at(worker(1), {"reboot"}), kRebootsInSpite);
  fprintf(stderr, "    reboot: %.0f s\n%s", reboot.seconds, reboot.err.c_str());
  EXPECT_EQ(reboot.status, 0) << cluster->talos.console(worker(1).name);
  EXPECT_NE(cluster->bootId(worker(1)), before);
  auto kernel = cluster->talos.ok(cluster->at(worker(1), {"dmesg"}));
  EXPECT_THAT(kernel, HasSubstr("mounted at /var"));
  EXPECT_THAT(kernel, Not(HasSubstr("Starting recovery"))) << "a file system was left mounted";
  server.thaw();
}

}  // namespace talos
