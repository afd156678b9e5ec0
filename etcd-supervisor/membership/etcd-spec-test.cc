#include "etcd-supervisor/membership/etcd-spec.h"

#include <gtest/gtest.h>

#include <string>

namespace talos::supervisor {
namespace {

Config config() {
  Config config;
  config.name = kj::str("n1");
  config.addresses.add(kj::str("10.0.0.1"));
  return config;
}

std::string text(const kj::Vector<Argument>& arguments) {
  std::string result;
  for (auto& argument : arguments)
    result += kj::str("--", argument.key, "=", argument.value, "\n").cStr();
  return result;
}

std::string valueOf(const kj::Vector<Argument>& arguments, kj::StringPtr key) {
  for (auto& argument : arguments) {
    if (argument.key == key) return argument.value.cStr();
  }
  return "none";
}

TEST(EtcdArguments, OfANewCluster) {
  EXPECT_EQ(text(argumentsOf(config(), {Start::From::kNew, kj::str("t1")})),
            "--advertise-client-urls=https://10.0.0.1:2379\n"
            "--auto-tls=false\n"
            "--cert-file=/etc/kubernetes/pki/etcd/server.crt\n"
            "--client-cert-auth=true\n"
            "--data-dir=/var/lib/etcd\n"
            "--experimental-compact-hash-check-enabled=true\n"
            "--experimental-initial-corrupt-check=true\n"
            "--experimental-watch-progress-notify-interval=5s\n"
            "--initial-advertise-peer-urls=https://10.0.0.1:2380\n"
            "--initial-cluster=n1=https://10.0.0.1:2380\n"
            "--initial-cluster-state=new\n"
            "--initial-cluster-token=t1\n"
            "--key-file=/etc/kubernetes/pki/etcd/server.key\n"
            "--listen-client-urls=https://0.0.0.0:2379\n"
            "--listen-peer-urls=https://0.0.0.0:2380\n"
            "--name=n1\n"
            "--peer-auto-tls=false\n"
            "--peer-cert-file=/etc/kubernetes/pki/etcd/peer.crt\n"
            "--peer-client-cert-auth=true\n"
            "--peer-key-file=/etc/kubernetes/pki/etcd/peer.key\n"
            "--peer-trusted-ca-file=/etc/kubernetes/pki/etcd/ca.crt\n"
            "--trusted-ca-file=/etc/kubernetes/pki/etcd/ca.crt\n");
}

TEST(EtcdArguments, WithDataThereIsNoFirstStart) {
  auto arguments = argumentsOf(config(), {});
  EXPECT_EQ(valueOf(arguments, "initial-cluster"), "none");
  EXPECT_EQ(valueOf(arguments, "initial-cluster-state"), "none");
  EXPECT_EQ(valueOf(arguments, "initial-advertise-peer-urls"), "none");
}

TEST(EtcdArguments, MemberThatRunsKeepsThoseOfItsFirstStart) {
  auto first = argumentsOf(config(), {Start::From::kExisting, kj::str("n1=u,n2=v")});
  auto changed = config();
  changed.extraArgs.add(Argument{kj::str("quota-backend-bytes"), kj::str("5")});
  auto kept = keepFirstStart(argumentsOf(changed, {}), first);
  EXPECT_EQ(valueOf(kept, "initial-cluster"), "n1=u,n2=v");
  EXPECT_EQ(valueOf(kept, "quota-backend-bytes"), "5");
  EXPECT_EQ(text(keepFirstStart(argumentsOf(config(), {}), first)), text(first));
}

TEST(EtcdArguments, ExtraOnesReplaceWhatMayBeReplaced) {
  auto own = config();
  own.extraArgs.add(Argument{kj::str("advertise-client-urls"), kj::str("https://n1:2379")});
  own.extraArgs.add(Argument{kj::str("client-cert-auth"), kj::str("false")});
  own.extraArgs.add(Argument{kj::str("name"), kj::str("n2")});
  auto arguments = argumentsOf(own, {});
  EXPECT_EQ(valueOf(arguments, "advertise-client-urls"), "https://n1:2379");
  EXPECT_EQ(valueOf(arguments, "client-cert-auth"), "true");
  EXPECT_EQ(valueOf(arguments, "name"), "n1");
}

TEST(EtcdArguments, ListensWhereTheConfigSays) {
  auto own = config();
  own.addresses.add(kj::str("fd00::1"));
  EXPECT_EQ(valueOf(argumentsOf(own, {}), "listen-peer-urls"), "https://[::]:2380");
  own.listenAddresses.add(kj::str("10.0.0.1"));
  own.listenAddresses.add(kj::str("fd00::1"));
  EXPECT_EQ(valueOf(argumentsOf(own, {}), "listen-client-urls"),
            "https://127.0.0.1:2379,https://10.0.0.1:2379,https://[fd00::1]:2379");
  EXPECT_EQ(valueOf(argumentsOf(own, {}), "listen-peer-urls"),
            "https://10.0.0.1:2380,https://[fd00::1]:2380");
}

TEST(EtcdArguments, VersionsGetWhatTheyKnow) {
  struct {
    kj::StringPtr image;
    bool initial, progress, compact;
  } cases[] = {
      {"", true, true, true},
      {"gcr.io/etcd-development/etcd:v3.4.15", true, false, false},
      {"registry:5000/etcd:3.5.4-0", true, true, false},
      {"registry.k8s.io/etcd:3.5.16-0", true, true, true},
      {"registry.k8s.io/etcd:3.6.1", true, true, true},
      {"registry.k8s.io/etcd:3.7.0", false, false, false},
      {"registry.k8s.io/etcd:latest", false, false, false},
      {"registry.k8s.io/etcd@sha256:00", false, false, false},
      {"registry:5000/etcd", false, false, false},
      {"etcd", false, false, false},
  };
  for (auto& one : cases) {
    auto own = config();
    own.image = kj::str(one.image);
    auto arguments = argumentsOf(own, {});
    EXPECT_EQ(valueOf(arguments, "experimental-initial-corrupt-check") == "true", one.initial)
        << one.image.cStr();
    EXPECT_EQ(valueOf(arguments, "experimental-watch-progress-notify-interval") == "5s",
              one.progress)
        << one.image.cStr();
    EXPECT_EQ(valueOf(arguments, "experimental-compact-hash-check-enabled") == "true", one.compact)
        << one.image.cStr();
  }
}

// Catches: a spec that is not published again, or does not say from which config it was made, when
// a change of the config leaves the arguments as they were.
TEST(EtcdArguments, SpecHasTheVersionOfItsConfig) {
  auto own = config();
  own.version = 7;
  auto copy = own.clone();
  copy.version = 8;
  auto spec = [](const Config& from, Data data) {
    return wantedOf(from, Intent(), data, nullptr, nullptr);
  };
  for (auto data : {Data::kNone, Data::kPartial, Data::kWhole}) {
    EXPECT_EQ(spec(own, data).configVersion, 7u);
    EXPECT_TRUE(spec(own, data) == spec(own.clone(), data));
    EXPECT_FALSE(spec(own, data) == spec(copy, data));
  }
}

TEST(EtcdArguments, MembersWithoutANameHaveOneInTheList) {
  auto member = [](etcd::MemberId id, kj::StringPtr name) {
    return etcd::Member{.id = id,
                        .name = kj::str(name),
                        .peerUrls = kj::arr(urlOf(kj::str("10.0.0.", id), 2380)),
                        .clientUrls = nullptr,
                        .learner = true};
  };
  auto members = kj::arr(member(1, "n1"), member(2, ""), member(31, ""));
  EXPECT_EQ(initialCluster(members, 2, "n2"),
            "n1=https://10.0.0.1:2380,n2=https://10.0.0.2:2380,1f=https://10.0.0.31:2380");
}

}  // namespace
}  // namespace talos::supervisor
