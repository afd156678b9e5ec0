// Finds the machine config in the sources of this machine (config-sources.h), by its kernel
// parameters, its volumes and its platform.
//
// Public CAs come from the image's bundle, unless talos.config.ca has others: then only those are
// trusted.
#pragma once

#include "common/base/node-layout.h"
#include "common/kernel/kernel-arguments.h"
#include "machined/config/config-fetch.h"
#include "machined/config/config-sources.h"
#include "machined/config/platform-client.h"
#include "machined/disk/volumes/volume-search.h"
#include "machined/process1/uv-loop.h"

namespace talos::machined {

class NodeConfigSources final : public ConfigSources {
 public:
  struct Dependencies {
    const KernelArguments& arguments;
    kj::StringPtr platform;
    // Returns the environment's USERDATA; empty or nullptr without it. The array is zeroed after it
    // was read.
    kj::Function<kj::Maybe<kj::Array<char>>()> userData;
    kj::Function<UrlVariables()> variables;
    kj::Function<platforms::Firmware()> firmware;
    Volumes& volumes;
    UvLoop& uv;
    kj::Network& network;
    kj::LowLevelAsyncIoProvider& sockets;
    kj::Timer& timer;
    const kj::Clock& clock;
    kj::Function<double()> random;
    kj::Function<void(kj::StringPtr line)> say;
    kj::Function<kj::Promise<kj::Array<kj::String>>(kj::StringPtr host)> resolve;
    ForeignBytes& foreign;
    kj::StringPtr bundle = kAuthoritiesBundle;
  };
  explicit NodeConfigSources(Dependencies deps);

  kj::Promise<ConfigSearch> find(kj::Duration limit) override;
  kj::Maybe<kj::String> platformProblem() override;
  bool clearable() override;
  kj::Promise<kj::Array<kj::String>> clear() override;
  // Makes one attempt to get the platform's facts. nullptr if the platform states none that this
  // system can get.
  kj::Maybe<kj::Function<kj::Promise<KnownFacts>()>> platformFacts();
  // Returns the addresses of the metadata service, which pods must not reach.
  kj::Array<kj::String> metadataAddresses() const;
  // Makes one attempt to report to the platform that this machine is ready. nullptr if it expects
  // no report.
  kj::Maybe<kj::Function<kj::Promise<void>()>> platformReport();

 private:
  Dependencies deps;
  FetchDependencies fetch;
  kj::Maybe<PlatformClient> client;
  kj::Maybe<kj::String> trusted;  // CAs of this search
  kj::String announced;           // each source is announced once

  void announce(kj::String line);
  void announceFirmware();
  // Returns the source that a parameter names, when the variables in it are known.
  kj::Promise<kj::Maybe<Source>> parameter(kj::Duration limit);
  kj::Promise<ConfigSearch> named(Source source, kj::Duration limit);
  kj::Promise<FoundConfig> fromServer(HttpSource source, kj::Duration limit);
  kj::Promise<FoundConfig> fromFile(FileSource source, kj::Duration limit);
  kj::Promise<FoundConfig> fromVolume(kj::String label, kj::Duration limit);
  kj::Promise<ConfigSearch> fromCidata(bool expected, kj::Duration limit);
  kj::Promise<ConfigSearch> fromUserData(kj::Array<char> content, kj::String name);
  kj::Promise<ConfigSearch> fromEnvironment();
  kj::Promise<ConfigSearch> fromGuestInfo(kj::Duration limit);
  kj::Promise<ConfigSearch> fromPlatform(PlatformClient& platform, kj::Duration limit);
  kj::Promise<FoundConfig> checked(kj::Array<char> body, kj::String from);
  kj::Promise<kj::String> authorities();
};

}  // namespace talos::machined
