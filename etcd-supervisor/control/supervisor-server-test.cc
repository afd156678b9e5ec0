// The API of a node of the model world (membership/test-membership-bed.h), as its callers have it.
#include "etcd-supervisor/control/supervisor-server.h"

#include <openssl/sha.h>
#include <string.h>

#include "common/base/file.h"
#include "common/testing/test-inline-disk.h"
#include "common/testing/test-tree.h"
#include "etcd-supervisor/membership/test-operator-calls.h"

namespace talos::supervisor {
namespace {

// A node's own, with a place for a snapshot that there is.
class FilesOnDisk final : public Files {
 public:
  FilesOnDisk(Files& model, kj::String path) : model(model), path(kj::mv(path)) {}
  Data data() override { return model.data(); }
  uint64_t freeBytes() override { return model.freeBytes(); }
  Intent load() override { return model.load(); }
  void store(const Intent& intent) override { model.store(intent); }
  void removeData() override { model.removeData(); }
  kj::StringPtr snapshot() override { return path; }
  void removeSnapshot() override { model.removeSnapshot(); }

 private:
  Files& model;
  kj::String path;
};

struct SupervisorApi : Membership {
  ~SupervisorApi() noexcept override {}
  machined::TestTree tree;
  InlineDisk disk;
  KeptSnapshot kept{bed.timer, disk, tree.root};
  kj::Maybe<FilesOnDisk> files;
  kj::Vector<kj::Own<JoinTokenBook>> books;
  kj::Vector<kj::String> statements;  // that were signed: bytes and hash
  SignSnapshot sign = [this](const SnapshotStatement& statement) {
    statements.add(kj::str(statement.bytes, " ", kj::encodeHex(statement.sha256)));
    return kj::heapArray("signature"_kj.asBytes());
  };

  rpc::Etcd::Client etcdOf(Node& node, kj::StringPtr client = "") {
    auto& its = files.emplace(*node.process, tree.at("snapshot"));
    auto& tokens = *books.add(kj::heap<JoinTokenBook>(JoinTokenBook::Dependencies{
        .timer = bed.timer,
        .clock = kj::systemPreciseCalendarClock(),
        .member = [&node]() -> etcd::Etcd& { return node.process->reconciler.localMember(); }}));
    auto server = makeServer({bed.timer, kj::systemPreciseCalendarClock(), node.process->reconciler,
                              its, kept, disk, tokens, sign});
    auto request = server.etcdRequest();
    request.setClient(client);
    return request.send().getEtcd();
  }
  // Returns "" on success, otherwise the error, after as much time as the call takes.
  template <typename T>
  std::string outcomeOf(capnp::RemotePromise<T> call) {
    kj::Promise<void> done = call.ignoreResult();
    if (!bed.eventually(kTimeout, [&] { return done.poll(bed.scope); })) return "it waits";
    auto e = kj::runCatchingExceptions([&] { done.wait(bed.scope); });
    KJ_IF_MAYBE (x, e) return kj::str(nameOf(kindOf(*x)), ": ", messageOf(*x)).cStr();
    return "";
  }
  std::string send(rpc::Etcd::Client etcd, const std::string& bytes) {
    auto asked = etcd.keepSnapshotRequest().send();
    auto upload = asked.getUpload();
    auto request = upload.writeRequest();
    request.setBytes(kj::arrayPtr(bytes.data(), bytes.size()).asBytes());
    auto written = request.send();
    auto answer = upload.doneRequest().send();
    return outcomeOf(kj::mv(answer));
  }
  std::string recover(rpc::Etcd::Client etcd) {
    auto request = etcd.bootstrapRequest();
    request.initRecovery().setKept(true);
    return outcomeOf(request.send());
  }
};

// Returns a snapshot in etcd's form: pages of a database, the second of which has the magic number,
// and a hash.
std::string snapshot(char filling) {
  std::string bytes(4096, filling);
  memcpy(bytes.data() + 16, "\xed\xda\x0c\xed", 4);
  kj::byte hash[SHA256_DIGEST_LENGTH];
  SHA256(reinterpret_cast<const kj::byte*>(bytes.data()), bytes.size(), hash);
  return bytes + std::string(reinterpret_cast<char*>(hash), sizeof hash);
}

// Catches: a member that calls the others for a list that it should return alone, and waits for
// silent ones; members in another order, or without the named one.
TEST_F(SupervisorApi, MembersAsTheLocalOneKnowsThem) {
  formed();
  auto etcd = etcdOf(n2);
  bed.slow[&n1] = bed.slow[&n3] = 60 * kj::SECONDS;
  auto all = etcd.membersRequest().send();
  auto request = etcd.membersRequest();
  request.setLocal(true);
  auto local = request.send();
  bed.pass(1 * kj::SECONDS);
  EXPECT_FALSE(all.poll(bed.scope));
  ASSERT_TRUE(local.poll(bed.scope));
  auto members = local.wait(bed.scope);
  std::string observed;
  for (auto member : members.getMembers()) {
    observed += kj::str(member.getName(), member.getLocal() ? " here" : "",
                        member.getLeader() ? " leads" : "", "; ")
                    .cStr();
  }
  EXPECT_EQ("n1 leads; n2 here; n3; ", observed);
  EXPECT_TRUE(members.getQuorum());
}

// Catches: an empty list from a node whose etcd does not run.
TEST_F(SupervisorApi, NoLocalMemberIsNotAnEmptyCluster) {
  boot();
  bed.pass(5 * kj::SECONDS);
  auto request = etcdOf(n1).membersRequest();
  request.setLocal(true);
  EXPECT_EQ("FailedPrecondition: etcd does not run on this node",
            outcomeOf(request.send()).substr(0, 50));
  EXPECT_EQ("FailedPrecondition: etcd does not run on this node",
            outcomeOf(etcdOf(n1).removeInitializedKeyRequest().send()).substr(0, 50));
  EXPECT_EQ("FailedPrecondition: etcd does not run on this node",
            outcomeOf(etcdOf(n1).secretsNotUnderRequest().send()).substr(0, 50));
  EXPECT_EQ("FailedPrecondition: etcd does not run on this node",
            outcomeOf(etcdOf(n1).joinTokensRequest().send()).substr(0, 50));
}

// Catches: a token that only the node that made it knows, or whose creator is lost; a secret in a
// list; a token that is revoked on another node, and only there.
TEST_F(SupervisorApi, JoinTokensAreThoseOfTheCluster) {
  formed();
  auto after = [&](auto promise) {
    EXPECT_TRUE(bed.eventually(kTimeout, [&] { return promise.poll(bed.scope); }));
    return promise.wait(bed.scope);
  };
  auto create = etcdOf(n1, "admin").createJoinTokenRequest();
  create.setHostname("w1");
  create.setTtlS(3600);
  auto made = after(create.send());
  EXPECT_TRUE(kj::StringPtr(made.getToken()).startsWith(kj::str("join-", made.getId(), ".")));
  auto listed = [&](Node& node) {
    auto answer = after(etcdOf(node).joinTokensRequest().send());
    std::string all = kj::str(answer).cStr();
    EXPECT_EQ(all.find(made.getToken().slice(12).cStr()), all.npos);
    std::string lines;
    for (auto token : answer.getTokens()) {
      lines +=
          kj::str(token.getId() == made.getId(), " ", token.getHostname(), " ", token.getState(),
                  " ", token.getCreatedBy(), " ", token.getEnds() == made.getEnds(), "\n")
              .cStr();
    }
    return lines;
  };
  EXPECT_EQ(listed(n2), "true w1 unused admin true\n");
  auto revoke = etcdOf(n3).revokeJoinTokenRequest();
  revoke.setId(made.getId());
  EXPECT_EQ("", outcomeOf(revoke.send()));
  EXPECT_EQ(listed(n1), "true w1 revoked admin true\n");
  auto unknown = etcdOf(n3).revokeJoinTokenRequest();
  unknown.setId("zzzzzz");
  EXPECT_EQ("NotFound: there is no join token", outcomeOf(unknown.send()).substr(0, 32));
}

// Catches: a key that stays; a key of another name that is removed; a removal that cannot be
// repeated, or is reported without a key; a node without etcd that reports success.
TEST_F(SupervisorApi, TheKeyOfASelfHostedControlPlane) {
  formed();
  auto& local = n2.process->at(kLocal);
  auto after = [&](auto promise) {
    EXPECT_TRUE(bed.eventually(kTimeout, [&] { return promise.poll(bed.scope); }));
    return promise.wait(bed.scope);
  };
  for (auto key : {"initialized"_kj, "initialized-by"_kj}) {
    after(local.put({.key = kj::str(key), .value = kj::str("true")}));
  }
  auto remove = [&] { return after(etcdOf(n2).removeInitializedKeyRequest().send()).getRemoved(); };
  EXPECT_TRUE(remove());
  EXPECT_FALSE(remove());
  auto left = after(local.range({.keys = {kj::str("initialized"), true}}));
  EXPECT_EQ(left.kvs.size(), 1u);
}

// Catches: a Secret under another key that is not counted or not named; other objects counted as
// Secrets; a prefix that is part of another name.
TEST_F(SupervisorApi, SecretsThatAreNotUnderAKey) {
  formed();
  auto& local = n2.process->at(kLocal);
  auto after = [&](auto promise) {
    EXPECT_TRUE(bed.eventually(kTimeout, [&] { return promise.poll(bed.scope); }));
    return promise.wait(bed.scope);
  };
  for (unsigned i = 0; i < 20; ++i) {
    after(local.put({.key = kj::str("/registry/secrets/default/new", i),
                     .value = kj::str("k8s:enc:secretbox:v1:key2:", i)}));
  }
  for (unsigned i = 0; i < 20; ++i) {
    after(local.put({.key = kj::str("/registry/secrets/plain/", i), .value = kj::str("k8s")}));
  }
  after(local.put({.key = kj::str("/registry/secrets/default/old"),
                   .value = kj::str("k8s:enc:secretbox:v1:key21:x")}));
  after(local.put({.key = kj::str("/registry/secretstores/a"), .value = kj::str("plain")}));
  auto request = etcdOf(n2).secretsNotUnderRequest();
  request.setPrefix("k8s:enc:secretbox:v1:key2:");
  auto found = after(request.send());
  EXPECT_EQ(found.getTotal(), 41u);
  EXPECT_EQ(found.getOthers(), 21u);
  ASSERT_EQ(found.getNames().size(), 21u);
  EXPECT_EQ(found.getNames()[0], "default/old");
  EXPECT_EQ(found.getNames()[1], "plain/0");
}

// Catches: a snapshot that is restored without its bytes, twice, after a failed restore, or by a
// bootstrap that did not request it; a snapshot that a member accepts and never restores.
TEST_F(SupervisorApi, ASnapshotThatWasSentBefore) {
  boot();
  bed.pass(5 * kj::SECONDS);
  auto etcd = etcdOf(n1);
  auto none =
      "FailedPrecondition: this node has no snapshot: none was sent since etcd-supervisor started, "
      "a bootstrap has used it, or it was kept for an hour; send it again";
  EXPECT_EQ(none, recover(etcd));
  auto damaged = snapshot('a');
  damaged[100] = 'b';
  EXPECT_EQ("", send(etcd, damaged));
  EXPECT_EQ("InvalidArgument: the snapshot is damaged: its SHA-256 is not the one behind it",
            recover(etcd));
  EXPECT_EQ(none, recover(etcd));
  auto whole = snapshot('c');
  EXPECT_EQ("", send(etcd, whole));
  EXPECT_EQ("", recover(etcd));
  auto restored = readFile(tree.at("snapshot"));
  EXPECT_EQ(whole, std::string(restored.begin(), restored.size()));
  EXPECT_EQ(none, recover(etcd));
  EXPECT_EQ("FailedPrecondition: the data directory /var/lib/etcd is not empty",
            send(etcd, whole).substr(0, 65));
}

struct TextSink final : public rpc::ByteSink::Server {
  std::string& bytes;
  explicit TextSink(std::string& bytes) : bytes(bytes) {}
  kj::Promise<void> write(WriteContext context) override {
    auto part = context.getParams().getBytes().asChars();
    bytes.append(part.begin(), part.size());
    return kj::READY_NOW;
  }
};

// Catches: a missing signature, or one of other bytes than those that were sent.
TEST_F(SupervisorApi, ASnapshotIsSigned) {
  formed();
  std::string bytes;
  auto request = etcdOf(n1).snapshotRequest();
  request.setSink(kj::heap<TextSink>(bytes));
  kj::Maybe<kj::String> signature;
  kj::Promise<void> done = request.send().then(
      [&](auto&& answer) { signature = kj::str(answer.getSignature().asChars()); });
  ASSERT_TRUE(bed.eventually(kTimeout, [&] { return done.poll(bed.scope); }));
  done.wait(bed.scope);
  EXPECT_EQ("signature"_kj, KJ_ASSERT_NONNULL(signature));
  ASSERT_EQ(1u, statements.size());
  auto database = bytes.size() - SHA256_DIGEST_LENGTH;
  kj::byte hash[SHA256_DIGEST_LENGTH];
  SHA256(reinterpret_cast<const kj::byte*>(bytes.data()), database, hash);
  EXPECT_EQ(kj::str(database, " ", kj::encodeHex(hash)), statements[0]);
}

}  // namespace
}  // namespace talos::supervisor
