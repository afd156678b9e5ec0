// kubeconfig when it has to ask the user.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <kj/debug.h>

#include "common/kube/kubeconfig.h"
#include "talosctl/commands/test-cluster.h"

namespace talos::talosctl {
namespace {

using ::testing::HasSubstr;

struct KubeconfigCommand : public ClusterTest {
  ~KubeconfigCommand() noexcept override {}
  kj::String path = kj::str(c.folder, "/kubeconfig");
  kj::AutoCloseFd reading;

  kj::String kubeconfig(kj::StringPtr server) {
    auto admin = pki::issue(c.authority.certificate, c.authority.key, {.server = false});
    auto text =
        kube::writeKubeconfig({.cluster = "c1",
                               .server = server,
                               .authority = c.authority.certificate,
                               .user = "admin@c1",
                               .credentials = kube::ClientPair{admin.certificate, admin.key},
                               .context = "admin@c1"});
    return kj::str(kj::StringPtr(text));
  }
  // Types as the user, who then ends the input.
  void type(kj::StringPtr text) {
    int ends[2];
    KJ_SYSCALL(pipe2(ends, O_CLOEXEC));
    reading = kj::AutoCloseFd(ends[0]);
    kj::AutoCloseFd writing(ends[1]);
    KJ_SYSCALL(write(writing, text.begin(), text.size()));
    c.deps->input = reading;
  }
};

// Catches: a terminal that is non-blocking for the shell after the command has asked, because both
// share one file description; an answer that is neither yes nor no; an end of input that counts as
// an answer.
TEST_F(KubeconfigCommand, AsksWithoutAChangeOfTheUsersTerminal) {
  node("10.0.0.2").kubeconfig = kubeconfig("https://10.0.0.2:6443");
  writeFileAtomically(path, kubeconfig("https://10.0.0.9:6443"), 0600);
  c.test.console.terminal = true;
  for (kj::StringPtr said : {"no\n"_kj, ""_kj, "maybe\no\noverwrite\no\n"_kj}) {
    type(said);
    int before, after;
    KJ_SYSCALL(before = fcntl(reading, F_GETFL));
    bool answered = said.startsWith("maybe");
    EXPECT_EQ(c.run({"-n", "10.0.0.2", "kubeconfig", path}), answered ? 0 : 1) << said.cStr();
    KJ_SYSCALL(after = fcntl(reading, F_GETFL));
    EXPECT_EQ(after, before);
    auto text = err();
    EXPECT_THAT(text, HasSubstr("already exists [rename/overwrite]: "));
    EXPECT_EQ(text.find("not answered; nothing was written") == std::string::npos, answered);
    auto stored = readFile(path);
    EXPECT_THAT(stored.cStr(), HasSubstr(answered ? "10.0.0.2:6443" : "10.0.0.9:6443"));
  }
}

// Catches: a kubeconfig for an address that this host does not reach; a server whose certificate
// cannot be verified, because its name is no longer known.
TEST_F(KubeconfigCommand, AnotherHostLeadsToTheServer) {
  node("10.0.0.2").kubeconfig = kubeconfig("https://10.0.0.2:6443");
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "kubeconfig", "-", "--endpoint", "fd00::1"}), 0) << err();
  EXPECT_THAT(out(),
              testing::AllOf(HasSubstr("https://[fd00::1]:6443"), HasSubstr("tls-server-name: ")));
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "kubeconfig", path, "--endpoint", "127.7.0.2"}), 0) << err();
  EXPECT_THAT(readFile(path).cStr(), HasSubstr("https://127.7.0.2:6443"));
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "kubeconfig", "-", "--endpoint", "127.7.0.2:6443"}), 1);
  EXPECT_THAT(err(), HasSubstr("must not have a port"));
}

}  // namespace
}  // namespace talos::talosctl
