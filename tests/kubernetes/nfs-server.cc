#include "tests/kubernetes/nfs-server.h"

#include <kj/debug.h>
#include <signal.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>

namespace talos {
namespace {

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

}  // namespace

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

}  // namespace talos
