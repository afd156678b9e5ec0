// The methods Bootstrap and EtcdRecover against a model of etcd-supervisor.
#include "apid/grpc/test-grpc-api.h"
#include "rpc/etcd-resources.capnp.h"

namespace talos::grpcapi {
namespace {

using namespace testing;

struct EtcdTestbed {
  kj::Maybe<kj::Exception> refusal;  // refusal of a bootstrap, of an upload, of the first write
  kj::Maybe<kj::Exception> noUpload, noWrite;
  std::string phase;              // state of the node; "": unknown
  std::vector<std::string> done;  // requested actions
  std::string uploaded;
  size_t largest = 0;  // largest piece
  unsigned open = 0;   // open uploads
};

void failIf(const kj::Maybe<kj::Exception>& problem) {
  KJ_IF_MAYBE (p, problem) kj::throwFatalException(kj::cp(*p));
}

class ModelUpload final : public rpc::Etcd::SnapshotUpload::Server {
 public:
  explicit ModelUpload(EtcdTestbed& bed) : bed(bed) { ++bed.open; }
  ~ModelUpload() noexcept(false) { --bed.open; }

 protected:
  kj::Promise<void> write(WriteContext context) override {
    failIf(bed.noWrite);
    auto bytes = context.getParams().getBytes();
    bed.largest = kj::max(bed.largest, bytes.size());
    bed.uploaded.append(bytes.asChars().begin(), bytes.size());
    return kj::READY_NOW;
  }
  kj::Promise<void> done(DoneContext context) override {
    bed.done.push_back("upload");
    return kj::READY_NOW;
  }

 private:
  EtcdTestbed& bed;
};

class ModelEtcd final : public rpc::Etcd::Server {
 public:
  explicit ModelEtcd(EtcdTestbed& bed) : bed(bed) {}

 protected:
  kj::Promise<void> keepSnapshot(KeepSnapshotContext context) override {
    failIf(bed.noUpload);
    context.getResults().setUpload(kj::heap<ModelUpload>(bed));
    return kj::READY_NOW;
  }
  kj::Promise<void> bootstrap(BootstrapContext context) override {
    auto recovery = context.getParams().getRecovery();
    bed.done.push_back(kj::str("bootstrap", recovery.getKept() ? " kept" : "",
                               recovery.getSkipHashCheck() ? " unchecked" : "")
                           .cStr());
    failIf(bed.refusal);
    return kj::READY_NOW;
  }
  kj::Promise<void> members(MembersContext context) override {
    bed.done.push_back(context.getParams().getLocal() ? "members of its own" : "members of all");
    return kj::READY_NOW;
  }

 private:
  EtcdTestbed& bed;
};

class RestorableResources final : public rpc::Resources::Server {
 public:
  explicit RestorableResources(EtcdTestbed& bed) : bed(bed) {}

 protected:
  kj::Promise<void> get(GetContext context) override {
    auto params = context.getParams();
    EXPECT_STREQ("EtcdStatuses.etcd.talos.dev", params.getKind().getType().cStr());
    EXPECT_STREQ("etcd", params.getKind().getNamespace().cStr());
    EXPECT_STREQ("etcd", params.getId().cStr());
    if (bed.phase.empty()) fail(ErrorKind::kNotFound, "there is none");
    auto spec = context.getResults().initResource().initSpec().initAs<rpc::EtcdStatusSpec>();
    spec.setPhase(bed.phase);
    return kj::READY_NOW;
  }

 private:
  EtcdTestbed& bed;
};

class EtcdModelNode final : public rpc::Node::Server {
 public:
  explicit EtcdModelNode(EtcdTestbed& bed) : bed(bed) {}

 protected:
  kj::Promise<void> etcd(EtcdContext context) override {
    context.getResults().setEtcd(kj::heap<ModelEtcd>(bed));
    return kj::READY_NOW;
  }
  kj::Promise<void> resources(ResourcesContext context) override {
    context.getResults().setResources(kj::heap<RestorableResources>(bed));
    return kj::READY_NOW;
  }

 private:
  EtcdTestbed& bed;
};

struct BootstrapTest : GrpcApiTest {
  EtcdTestbed bed;
  BootstrapTest() {
    cluster->nodes.insert({"", kj::heap<EtcdModelNode>(bed)});
    cluster->nodes.insert({"10.0.0.2", kj::heap<EtcdModelNode>(bed)});
  }
  ~BootstrapTest() noexcept override { handler = nullptr; }

  std::string bootstrap(bool recovers = false, bool skips = false) {
    TestCall call("/machine.MachineService/Bootstrap", request([&](WireWriter& out) {
                    if (recovers) out.varint(1, 1);
                    if (skips) out.varint(2, 1);
                  }));
    auto status = run(call);
    EXPECT_EQ(status == "0 " ? 1u : 0u, call.message(0).count(1));
    return status;
  }
};

kj::Array<kj::byte> piece(kj::StringPtr bytes) {
  return request([&](WireWriter& out) { out.bytes(2, bytes.asBytes()); });
}

// Catches: a new cluster where the client wants its old one; a hash that is not checked although
// the client did not skip the check.
TEST_F(BootstrapTest, OfASnapshotIfTheClientSaysSo) {
  EXPECT_EQ("0 ", bootstrap());
  EXPECT_EQ("0 ", bootstrap(true));
  EXPECT_EQ("0 ", bootstrap(true, true));
  EXPECT_EQ("3 recover_skip_hash_check needs recover_etcd", bootstrap(false, true));
  EXPECT_EQ((std::vector<std::string>{"bootstrap", "bootstrap kept", "bootstrap kept unchecked"}),
            bed.done);
}

// Catches: success that is reported although another node has only started, and may fail; an
// existing cluster that a program tries to create for ever; a snapshot that was not restored,
// reported as success.
TEST_F(BootstrapTest, AlreadyExistsMeansAnExistingCluster) {
  bed.refusal = error(ErrorKind::kConflict, "10.0.0.3 makes a cluster");
  bed.phase = "waiting";
  EXPECT_EQ("9 10.0.0.3 makes a cluster", bootstrap());
  bed.refusal = error(ErrorKind::kFailedPrecondition, "10.0.0.3 has a cluster");
  EXPECT_EQ("9 10.0.0.3 has a cluster", bootstrap());
  bed.phase = "";
  EXPECT_EQ("9 10.0.0.3 has a cluster", bootstrap());
  for (auto phase : {"joining", "learner", "member"}) {
    bed.phase = phase;
    EXPECT_EQ("6 10.0.0.3 has a cluster", bootstrap()) << phase;
    EXPECT_EQ("9 10.0.0.3 has a cluster", bootstrap(true)) << phase;
  }
  bed.refusal = error(ErrorKind::kUnavailable, "10.0.0.3 cannot be asked");
  EXPECT_EQ("14 10.0.0.3 cannot be asked", bootstrap());
}

// Catches: a snapshot that loses a part, or arrives in pieces that no sink takes; an incomplete
// snapshot that is kept; an answer before the node has the snapshot.
TEST_F(BootstrapTest, ASnapshotIsSentBefore) {
  auto large = kj::str(kj::repeat('x', 150'000));
  TestCall call("/machine.MachineService/EtcdRecover", piece("begin "));
  call.requests.push_back(piece(large));
  call.requests.push_back(piece(" end"));
  EXPECT_EQ("0 ", run(call));
  EXPECT_EQ(1u, call.message(0).count(1));
  EXPECT_FALSE(call.message(0).in(1).has(1));
  EXPECT_EQ(kj::str("begin ", large, " end").cStr(), bed.uploaded);
  EXPECT_EQ(64u << 10, bed.largest);
  EXPECT_EQ(std::vector<std::string>{"upload"}, bed.done);
  EXPECT_EQ(0u, bed.open);
}

// Catches: a snapshot that is sent to two nodes in turn; an answer without the node's name; a
// refusal that is reported after the whole upload, or taken for success.
TEST_F(BootstrapTest, ASnapshotGoesToOneNodeThatWantsIt) {
  auto path = "/machine.MachineService/EtcdRecover";
  TestCall two(path, piece("x"));
  two.toNodes({"10.0.0.2", "10.0.0.9"});
  EXPECT_EQ("3 /machine.MachineService/EtcdRecover is for one node, not for 2", run(two));
  EXPECT_EQ(1u, two.requests.size());
  TestCall one(path, piece("x"));
  one.toNodes({"10.0.0.2"});
  EXPECT_EQ("0 ", run(one));
  EXPECT_EQ("10.0.0.2", one.message(0).in(1).in(1).text(1));
  EXPECT_FALSE(one.message(0).in(1).in(1).has(2));
  EXPECT_EQ("x", bed.uploaded);

  bed.noUpload = error(ErrorKind::kPermissionDenied, "Etcd.keepSnapshot needs the role os:admin");
  TestCall refused(path, piece("y"));
  EXPECT_EQ("7 not authorized: Etcd.keepSnapshot needs the role os:admin", run(refused));
  EXPECT_EQ(1u, refused.requests.size()) << "it was read all the same";
  TestCall named(path, piece("y"));
  named.toNodes({"10.0.0.2"});
  EXPECT_EQ("0 ", run(named));
  EXPECT_EQ(7u, named.message(0).in(1).in(1).in(3).number(1));

  bed.noUpload = nullptr;
  bed.noWrite = error(ErrorKind::kResourceExhausted, "the disk is full");
  TestCall full(path, piece("z"));
  EXPECT_EQ("8 the disk is full", run(full));
  EXPECT_EQ("x", bed.uploaded);
  EXPECT_EQ(std::vector<std::string>{"upload"}, bed.done);
  EXPECT_EQ(0u, bed.open);
}

// Catches: all members of the cluster, given as the members that the called node knows.
TEST_F(BootstrapTest, MembersAreThoseThatWereAskedFor) {
  TestCall all("/machine.MachineService/EtcdMemberList");
  EXPECT_EQ("0 ", run(all));
  TestCall own("/machine.MachineService/EtcdMemberList",
               request([](WireWriter& out) { out.varint(1, 1); }));
  EXPECT_EQ("0 ", run(own));
  EXPECT_EQ((std::vector<std::string>{"members of all", "members of its own"}), bed.done);
}

}  // namespace
}  // namespace talos::grpcapi
