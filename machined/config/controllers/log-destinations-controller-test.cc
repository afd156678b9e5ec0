#include "machined/config/controllers/test-machine-config.h"
#include "rpc/feature-resources.capnp.h"

namespace talos::machined {

kj::Own<Controller> logDestinationsController(ControllerDependencies& deps);

namespace {

struct LogDestinationsControllerTest : public ConfigTest {
  ~LogDestinationsControllerTest() noexcept override {}

  void configureLogging(kj::StringPtr logging) {
    publish(kj::str("machine: {type: worker", logging,
                    "}\ncluster: {controlPlane: {endpoint: 'https://10.0.0.1:6443'}}\n"));
    controller->reconcile(store).wait(io.waitScope);
  }
  size_t destinations() { return store.list<rpc::LogDestinationSpec>().size(); }

  kj::Own<Controller> controller = logDestinationsController(deps);
};

// Catches: defaults that each reader must add itself; a destination that stays when its key is
// removed. The keys: machine.logging.destinations with endpoint, format, extraTags, streams, ca,
// bufferSize, headers, compression.
TEST_F(LogDestinationsControllerTest, WritesEachDestinationWithItsDefaults) {
  configureLogging(
      ", logging: {destinations: [{endpoint: 'tcp://10.0.0.9:514'}, {endpoint: "
      "'tls://logs.example.org:6514', format: rfc5424, streams: [kernel, events], extraTags: "
      "{rack: "
      "r17}, ca: YWJj, bufferSize: 2MiB}]}");
  ASSERT_EQ(2u, destinations());
  auto plain = KJ_ASSERT_NONNULL(store.tryGet<rpc::LogDestinationSpec>("tcp://10.0.0.9:514"));
  EXPECT_EQ(config::LogFormat::JSON_LINES, plain.getFormat());
  ASSERT_EQ(1u, plain.getStreams().size());
  EXPECT_EQ(config::LogStream::SERVICES, plain.getStreams()[0]);
  EXPECT_EQ(64u << 20, plain.getBufferBytes());
  EXPECT_EQ("", plain.getAuthorities());
  auto full =
      KJ_ASSERT_NONNULL(store.tryGet<rpc::LogDestinationSpec>("tls://logs.example.org:6514"));
  EXPECT_EQ(config::LogFormat::RFC5424, full.getFormat());
  ASSERT_EQ(2u, full.getStreams().size());
  EXPECT_EQ(config::LogStream::EVENTS, full.getStreams()[1]);
  ASSERT_EQ(1u, full.getTags().size());
  EXPECT_EQ("rack", full.getTags()[0].getKey());
  EXPECT_EQ("r17", full.getTags()[0].getValue());
  EXPECT_EQ("abc", full.getAuthorities());
  EXPECT_EQ(2u << 20, full.getBufferBytes());
  // The records for clients of Talos.
  auto kernel = KJ_ASSERT_NONNULL(store.tryGet<rpc::KmsgLogConfigSpec>("kmsg-log"));
  ASSERT_EQ(1u, kernel.getDestinations().size());
  EXPECT_EQ("tls://logs.example.org:6514", kernel.getDestinations()[0]);
  auto sink =
      KJ_ASSERT_NONNULL(store.tryGet<rpc::EventSinkConfigSpec>("tls://logs.example.org:6514"));
  EXPECT_EQ("tls://logs.example.org:6514", sink.getEndpoint());

  configureLogging(
      ", logging: {destinations: [{endpoint: 'https://otel.example.org:4318/otlp/v1/logs', format: "
      "otlp, streams: [audit]}]}");
  auto otlp = KJ_ASSERT_NONNULL(
      store.tryGet<rpc::LogDestinationSpec>("https://otel.example.org:4318/otlp/v1/logs"));
  EXPECT_EQ(config::LogFormat::OTLP, otlp.getFormat());
  EXPECT_EQ(config::LogCompression::NONE, otlp.getCompression());
  EXPECT_EQ(1u, destinations());

  configureLogging("");
  EXPECT_EQ(0u, destinations());
  EXPECT_TRUE(store.tryGet<rpc::KmsgLogConfigSpec>("kmsg-log") == nullptr);
}

// Catches: a receiver of events that clients of Talos do not find under their id; a kernel argument
// that does nothing, needs a config, or acts beside the receiver of the config, which replaces it;
// a mistake in it that is not reported.
TEST_F(LogDestinationsControllerTest, TheConfigReplacesTheKernelArgument) {
  auto sink = [&]() -> std::string {
    KJ_IF_MAYBE (found, store.tryGet<rpc::EventSinkConfigSpec>("event-sink")) {
      return found->getEndpoint().cStr();
    }
    return "";
  };
  arguments = KernelArguments("quiet talos.events.sink=192.0.2.7:4000"_kj.asArray());
  controller = logDestinationsController(deps);
  controller->reconcile(store).wait(io.waitScope);
  EXPECT_EQ("192.0.2.7:4000", sink());
  auto destination =
      KJ_ASSERT_NONNULL(store.tryGet<rpc::LogDestinationSpec>("grpc://192.0.2.7:4000"));
  ASSERT_EQ(1u, destination.getStreams().size());
  EXPECT_EQ(config::LogStream::EVENTS, destination.getStreams()[0]);
  EXPECT_EQ(64u << 20, destination.getBufferBytes());

  // Another receiver of events, which Talos does not have, leaves the argument as it is.
  configureLogging(
      ", logging: {destinations: [{endpoint: 'tcp://10.0.0.9:514', streams: [events]}]}");
  EXPECT_EQ("192.0.2.7:4000", sink());
  EXPECT_EQ(2u, destinations());

  publish(
      "machine: {type: worker}\ncluster: {controlPlane: {endpoint: 'https://10.0.0.1:6443'}}\n"
      "---\n{apiVersion: v1alpha1, kind: EventSinkConfig, endpoint: '[fd00::1]:4001'}\n");
  controller->reconcile(store).wait(io.waitScope);
  EXPECT_EQ("[fd00::1]:4001", sink());
  EXPECT_EQ(1u, destinations());
  EXPECT_FALSE(store.tryGet<rpc::LogDestinationSpec>("grpc://[fd00::1]:4001") == nullptr);

  EXPECT_EQ(0u, warnings.size());
  arguments = KernelArguments("talos.events.sink=192.0.2.7"_kj.asArray());
  controller = logDestinationsController(deps);
  configureLogging("");
  EXPECT_EQ("", sink());
  EXPECT_EQ(0u, destinations());
  ASSERT_EQ(1u, warnings.size());
  EXPECT_EQ(
      "kernel argument talos.events.sink: \"192.0.2.7\" is not a host and a port; for "
      "example 192.0.2.7:4000",
      warnings[0]);
}

// Catches: a token in a record that every reader may see; a token that stays when its key is
// removed.
TEST_F(LogDestinationsControllerTest, KeepsHeadersFromReaders) {
  constexpr auto kEndpoint = "https://otel.example.org:4318"_kj;
  configureLogging(
      ", logging: {destinations: [{endpoint: 'https://otel.example.org:4318', format: otlp, "
      "compression: gzip, headers: {Authorization: Bearer 0123456789, X-Scope-OrgID: nodes}}]}");
  auto destination = KJ_ASSERT_NONNULL(store.tryGet<rpc::LogDestinationSpec>(kEndpoint));
  EXPECT_EQ(config::LogCompression::GZIP, destination.getCompression());
  ASSERT_EQ(2u, destination.getHeaders().size());
  EXPECT_EQ("Authorization", destination.getHeaders()[0]);
  EXPECT_EQ("X-Scope-OrgID", destination.getHeaders()[1]);
  EXPECT_EQ(nullptr, strstr(kj::str(destination).cStr(), "0123456789"));
  auto secret = KJ_ASSERT_NONNULL(store.tryGet<rpc::LogDestinationCredentialsSpec>(kEndpoint));
  ASSERT_EQ(2u, secret.getHeaders().size());
  EXPECT_EQ("Bearer 0123456789", secret.getHeaders()[0].getValue());
  EXPECT_EQ("nodes", secret.getHeaders()[1].getValue());

  configureLogging(
      ", logging: {destinations: [{endpoint: 'https://otel.example.org:4318', format: otlp}]}");
  EXPECT_EQ(1u, destinations());
  EXPECT_TRUE(store.tryGet<rpc::LogDestinationCredentialsSpec>(kEndpoint) == nullptr);
}

}  // namespace
}  // namespace talos::machined
