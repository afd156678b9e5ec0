#include "machined/config/controllers/test-machine-config.h"
#include "machined/kubernetes/etcd/etcd-config.h"
#include "rpc/etcd-resources.capnp.h"

namespace talos::machined {
namespace {

struct EtcdBackupTest : public ConfigTest {
  ~EtcdBackupTest() noexcept override {}

  void configureBackup(kj::StringPtr type, kj::StringPtr backup) {
    publish(kj::str("machine: {type: ", type,
                    ", ca: {crt: YWJj, key: YWJj}}\ncluster: {controlPlane: {endpoint: "
                    "'https://10.0.0.1:6443'}, etcd: {ca: {crt: YWJj, key: YWJj}",
                    backup, "}}\n"));
    controller->reconcile(store).wait(io.waitScope);
  }
  auto spec() { return store.tryGet<rpc::EtcdBackupConfigSpec>("etcd"); }

  kj::Own<Controller> controller = etcdBackupController(deps);
};

// Catches: defaults that the reader would have to add; a worker that uploads; a record that stays.
// The keys: cluster.etcd.backup with endpoint, bucket, prefix, region, accessKey, secretKey, ca,
// every, keep, encryptTo.
TEST_F(EtcdBackupTest, WritesTheBackupOfAControlPlaneNode) {
  constexpr auto kLeast =
      ", backup: {endpoint: 'https://s3.example.org', bucket: b, accessKey: a, secretKey: s, "
      "encryptTo: YWJj}"_kj;
  configureBackup("controlplane", kLeast);
  auto plain = KJ_ASSERT_NONNULL(spec());
  EXPECT_EQ("https://s3.example.org", plain.getEndpoint());
  EXPECT_EQ("b", plain.getBucket());
  EXPECT_EQ("", plain.getPrefix());
  EXPECT_EQ("us-east-1", plain.getRegion());
  EXPECT_EQ("a", plain.getAccessKey());
  EXPECT_EQ("s", plain.getSecretKey());
  EXPECT_EQ("", plain.getAuthorities());
  EXPECT_EQ(3600u, plain.getEverySeconds());
  EXPECT_EQ(48u, plain.getKeep());
  EXPECT_EQ("abc", plain.getRecipient());

  configureBackup("controlplane",
                  ", backup: {endpoint: 'https://s3.example.org', bucket: b, prefix: p/, region: "
                  "eu-central-1, accessKey: a, secretKey: s, ca: YWJj, every: 90m, keep: 7, "
                  "encryptTo: YWJj}");
  auto full = KJ_ASSERT_NONNULL(spec());
  EXPECT_EQ("p/", full.getPrefix());
  EXPECT_EQ("eu-central-1", full.getRegion());
  EXPECT_EQ("abc", full.getAuthorities());
  EXPECT_EQ(5400u, full.getEverySeconds());
  EXPECT_EQ(7u, full.getKeep());

  configureBackup("controlplane", "");
  EXPECT_TRUE(spec() == nullptr);
  configureBackup("worker", kLeast);
  EXPECT_TRUE(spec() == nullptr);
}

}  // namespace
}  // namespace talos::machined
