#include "machined/extensions/extension-services.h"

#include <capnp/serialize.h>
#include <gmock/gmock.h>

#include "common/testing/test-tree.h"
#include "machined/resources/test-store.h"
#include "machined/services/test-supervisor.h"

namespace talos::machined {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

ExtensionConfig configFor(kj::StringPtr name, kj::StringPtr content = "text") {
  ExtensionConfig config;
  config.name = kj::str(name);
  config.files.add(ExtensionConfigFile{kj::str("/etc/agent.conf"), kj::str(content)});
  return config;
}

kj::Vector<ExtensionConfig> listOf(ExtensionConfig config) {
  kj::Vector<ExtensionConfig> list;
  list.add(kj::mv(config));
  return list;
}

class ExtensionServicesTest : public SupervisorTest {
 public:
  ~ExtensionServicesTest() noexcept override {}

 protected:
  Registry registry;
  Store store{registry, *this};
  TestTree tree;
  kj::Own<ImageExtensions> image = makeImage();
  Containerd containerd{timer, []() -> kj::Promise<kj::Own<kj::AsyncIoStream>> {
                          return error(ErrorKind::kUnavailable, "does not run");
                        }};
  ExtensionServices services{{.supervisor = *supervisor,
                              .containerd = containerd,
                              .store = store,
                              .image = *image,
                              .allowedScore = [](int wanted) { return wanted; },
                              .configFolder = tree.at("configs")}};

  kj::Own<ImageExtensions> makeImage() {
    auto data = tree.at("data");
    capnp::MallocMessageBuilder message;
    auto list = message.initRoot<extension::ImageExtensions>().initServices(3);
    list[0].setName("agent");
    list[0].initContainer().setEntrypoint("agent");
    auto depends = list[0].initDepends(2);
    depends[0].initNetwork(1).set(0, extension::NetworkState::ADDRESSES);
    depends[1].setConfiguration(true);
    list[1].setName("../evil");
    list[2].setName("plain");
    auto plain = list[2].initContainer();
    plain.setEntrypoint("plain");
    plain.initMounts(1)[0].setDestination("/data");
    plain.getMounts()[0].setSource(data);
    return kj::heap<ImageExtensions>(capnp::messageToFlatArray(message));
  }
  // Loads the runtime, which the services wait for, as a part that runs.
  void startRuntime() {
    auto runtime = define("cri");
    runtime.part = []() -> kj::Promise<void> { return kj::NEVER_DONE; };
    supervisor->load(kj::mv(runtime));
    supervisor->start("cri");
    run();
  }
};

// Catches: a service that starts without its document or the network; a name that leaves the
// folders of services.
TEST_F(ExtensionServicesTest, TheyWaitForWhatTheirFilesName) {
  services.load();
  run();
  EXPECT_THAT(events, Contains("ext-agent Waiting Waiting for the network's addresses, a document "
                               "ExtensionServiceConfig \"agent\", the machine config, service "
                               "\"cri\" to be \"up\""));
  EXPECT_THAT(std::string(kj::strArray(supervisor->ids(), " ").cStr()), Not(HasSubstr("evil")));
  events.clear();
  services.configure(listOf(configFor("agent"))).wait(scope);
  startRuntime();
  advance(1 * kj::SECONDS);
  EXPECT_THAT(events, Contains("ext-agent Waiting Waiting for the network's addresses"));
  EXPECT_TRUE(services.has("agent"));
  EXPECT_FALSE(services.has("other"));
}

// Catches: a document that a reader of the node sees, or that is written for a service that the
// image does not have.
TEST_F(ExtensionServicesTest, ADocumentOfAnotherServiceChangesNothing) {
  services.load();
  services.configure(listOf(configFor("other"))).wait(scope);
  advance(1 * kj::SECONDS);
  EXPECT_THAT(events, Contains(HasSubstr("a document ExtensionServiceConfig \"agent\"")));
  EXPECT_NE(access(tree.at("configs").cStr(), F_OK), 0);
}

// Catches: a file of a document that is a folder, because it was made as the source of a mount; a
// folder of the node that everyone can enter.
TEST_F(ExtensionServicesTest, TheirFilesAndFoldersExistBeforeTheyStart) {
  services.load();
  services.configure(listOf(configFor("plain"))).wait(scope);
  startRuntime();
  advance(2 * kj::SECONDS);
  EXPECT_EQ(readFile(tree.at("configs/plain/etc-agent.conf")), "text");
  for (auto path : {"configs/plain"_kj, "data"_kj}) {
    struct stat info;
    ASSERT_EQ(stat(tree.at(path).cStr(), &info), 0) << path.cStr();
    EXPECT_EQ(info.st_mode, mode_t{S_IFDIR | 0700}) << path.cStr();
  }
}

TEST(ImageExtensions, AnImageWithoutTheFileHasNone) {
  TestTree tree;
  auto image = ImageExtensions::read(tree.at("absent"));
  EXPECT_EQ(image->services().size(), 0u);
  EXPECT_EQ(image->layers().size(), 0u);
  tree.file("damaged", "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff");
  auto failure = kj::runCatchingExceptions([&] { ImageExtensions::read(tree.at("damaged")); });
  EXPECT_THAT(messageOf(KJ_ASSERT_NONNULL(failure)).cStr(),
              HasSubstr("is not a list of system extensions"));
}

}  // namespace
}  // namespace talos::machined
