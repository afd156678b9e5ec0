#include "tests/cluster/lying-node.h"

#include <gtest/gtest.h>
#include <kj/encoding.h>
#include <stdlib.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <regex>

namespace talos {
namespace {

using harness::contains;

std::string encoded(kj::StringPtr text) {
  return kj::encodeBase64(text.asBytes()).cStr();
}

std::string certificateOnly(kj::StringPtr pem) {
  return "{\"crt\": \"" + encoded(pem) + "\"}";
}

std::string put(const std::string& path, const std::string& value) {
  return R"({"op": "add", "path": ")" + path + R"(", "value": )" + value + "}";
}

std::string without(const std::string& path) {
  return R"({"op": "remove", "path": ")" + path + R"("})";
}

kj::String pemOf(const std::string& base64) {
  auto bytes = kj::decodeBase64(kj::arrayPtr(base64.data(), base64.size()));
  return kj::heapString(bytes.asChars());
}

double seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

std::string Lies::pair() const {
  return "{\"crt\": \"" + encoded(foreign.certificate) + "\", \"key\": \"" + encoded(foreign.key) +
         "\"}";
}

std::string Lies::controlPlane(const std::string& type) const {
  return "[" + put("/machine/type", "\"" + type + "\"") + "," + put("/machine/ca", pair()) + "," +
         put("/cluster/ca", pair()) + "," + put("/cluster/aggregatorCA", pair()) + "," +
         put("/cluster/etcd", "{\"ca\": " + pair() + "}") + "]";
}

std::string Lies::otherCa() const {
  return "[" + put(part + "/ca", certificateOnly(foreign.certificate)) + "]";
}

std::string Lies::otherHash() const {
  auto hash = kj::str("\"", pki::authorityHash(foreign.certificate), "\"");
  return "[" + without("/machine/ca") + "," + put("/machine/caHash", hash.cStr()) + "]";
}

std::string Lies::sameKey(const std::string& own) const {
  auto signedByAnother = pki::crossSign(foreign.certificate, foreign.key, pemOf(own));
  return "[" + put(part + "/ca", certificateOnly(signedByAnother)) + "]";
}

std::string Lies::noCa() const {
  return "[" + without(part + "/ca") + "]";
}

std::string Lies::noCertificate() const {
  return "[" + put(part + "/ca", R"({"crt": "eHh4"})") + "]";
}

std::string Lies::noPersistence() const {
  return "[" + put("/persist", "false") + "]";
}

std::string Lies::acceptedCas(const std::string& own) const {
  auto cross = pki::crossSign(foreign.certificate, foreign.key, pemOf(own));
  auto list = "[" + certificateOnly(foreign.certificate) + "," + certificateOnly(cross) + "]";
  return "[" + put(part + "/acceptedCAs", list) + "]";
}

std::set<std::string> keysIn(const std::string& config) {
  std::set<std::string> keys;
  std::regex key("(key|[a-z]+EncryptionSecret): ([A-Za-z0-9+/=]{40,})");
  for (auto& line : harness::lines(config)) {
    std::smatch match;
    if (std::regex_search(line, match, key)) keys.insert(match[2]);
  }
  return keys;
}

LyingNode::LyingNode(const harness::Cluster& cluster, const std::string& name,
                     const std::string& address, std::function<std::string()> talosconfig)
    : name(name), address(address), cluster(cluster), talosconfig(std::move(talosconfig)) {
  cluster.ok({"debug", "replace", "--state", cluster.folder() + "/clusters", "-n", address, "apid",
              getenv("LYING_APID")},
             120);
}

void LyingNode::lie(const std::string& about, const std::string& content) const {
  auto path =
      "/proc/" + std::to_string(cluster.process(name)) + "/root/run/talos/networkd/lie-" + about;
  if (content.empty()) {
    unlink(path.c_str());
    return;
  }
  std::ofstream(path + ".new") << content;
  EXPECT_EQ(rename((path + ".new").c_str(), path.c_str()), 0) << path;
}

std::string LyingNode::received() const {
  auto log = harness::run(
      {harness::talosctlPath(), "--talosconfig", talosconfig(), "-n", address, "logs", "apid"});
  EXPECT_EQ(log.status, 0) << log.err;
  EXPECT_TRUE(contains(log.out, "message=listening")) << "its beginning is lost";
  std::string received;
  for (auto& line : harness::lines(log.out)) {
    if (contains(line, "message=\"received a c") || contains(line, "message=received ")) {
      received += line + "\n";
    }
  }
  return received;
}

void LyingNode::expectRefused(const std::vector<std::string>& command,
                              const std::string& error) const {
  SCOPED_TRACE(error);
  auto before = received();
  auto result = harness::run(command, 120);
  EXPECT_EQ(result.status, 1) << result.out;
  EXPECT_TRUE(contains(result.err, error)) << result.err;
  EXPECT_EQ(received(), before);
}

double LyingNode::expectStopped(const std::vector<std::string>& command, const std::string& line,
                                const std::string& patch, const std::string& reason,
                                const std::function<void()>& meanwhile) const {
  SCOPED_TRACE(line);
  tell("");
  harness::Background run(command);
  EXPECT_TRUE(run.waitFor([&](auto&, auto& err) { return contains(err, line); }, kRunTimeout))
      << run.err();
  auto at = seconds() - 0.5;
  run.pause();
  meanwhile();
  tell(patch);
  run.proceed();
  EXPECT_EQ(run.finish(kRunTimeout), 1) << run.err();
  // On a busy host the node may be asked again in the next phase only.
  std::smatch phase;
  auto err = run.err();
  std::regex stopped("phase ([a-z]+) at " + address + ": " + address + reason);
  EXPECT_TRUE(std::regex_search(err, phase, stopped)) << err;
  printf("the lie after \"%s\" is seen in the phase %s\n", line.c_str(), phase[1].str().c_str());
  fflush(stdout);
  EXPECT_EQ(keysIn(received()).size(), 0u);
  return at;
}

}  // namespace talos
