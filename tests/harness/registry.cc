#include "tests/harness/registry.h"

#include <kj/debug.h>
#include <sched.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>

namespace talos::harness {

Registry::Registry(const std::string& folder, const std::string& address, const std::string& remote,
                   const std::string& certificate) {
  auto storage = folder + "/" + address;
  std::filesystem::create_directories(storage);
  auto config = storage + "/config.yml";
  std::ofstream(config) << "version: 0.1\nstorage: {filesystem: {rootdirectory: " << storage
                        << "/data}}\nhttp: {addr: '" << address << "'"
                        << (certificate.empty() ? ""
                                                : ", tls: {certificate: " + certificate +
                                                      ", key: " + certificate + "}")
                        << "}\n"
                        << (remote.empty() ? "" : "proxy: {remoteurl: '" + remote + "'}\n");
  log = storage + "/log";
  process = std::make_unique<Background>(std::vector<std::string>{
      "sh", "-c", "exec docker-registry serve \"$0\" >\"$1\" 2>&1", config, log});
  bool listens = eventually([this] { return contains(slurp(log), "listening on"); }, 30);
  KJ_REQUIRE(listens, "docker-registry does not listen", address.c_str(), slurp(log).c_str());
}

bool Registry::wasAsked(const std::string& part) {
  return eventually([&] { return contains(slurp(log), part); }, 10);
}

void RegistryHost::SetUp() {
  ASSERT_EQ(unshare(CLONE_NEWNET), 0) << "needs root";
  ASSERT_EQ(run({"ip", "link", "set", "lo", "up"}).status, 0);
  char name[] = "/tmp/talos-registry-XXXXXX";
  ASSERT_NE(mkdtemp(name), nullptr);
  folder = name;
}

void RegistryHost::TearDown() {
  std::filesystem::remove_all(folder);
}

}  // namespace talos::harness
