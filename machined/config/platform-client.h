// Gets the machine config and the facts of this machine from its platform
// (machined/platforms/platform.h): from a volume, from the hypervisor, or from the metadata
// service, by one request after the other, each over a connection of its own whose answer a
// confined process reads. Reports that the machine is ready, where the platform expects that.
//
// 404, an empty answer and a file that is not there are "there is none"; every other failure is
// tried again. Tokens are never logged, and no redirect is followed. Nothing is kept: after a crash
// the search starts anew.
#pragma once

#include "machined/config/config-fetch.h"
#include "machined/disk/volumes/volume-search.h"
#include "machined/platforms/platform.h"

namespace talos::machined {

class PlatformClient {
 public:
  // All references have to outlive it. `serial`: of the machine, by its firmware.
  PlatformClient(const platforms::Platform& platform, kj::StringPtr serial,
                 FetchDependencies& fetch, Volumes& volumes);

  bool hasFacts() const { return platform.facts.size() > 0 || onHypervisor(); }
  bool expectsReport() const { return platform.report != nullptr; }
  // True if the machine config is in the guest information of VMware, or on a disc that its
  // hypervisor gives instead.
  bool onHypervisor() const { return platform.place == platforms::Place::kGuestInfo; }
  // True if it has a metadata service, or a serial number that names one, if wrongly.
  bool hasServer() const { return server.size() > 0; }
  // Returns the addresses of the services that pods must not reach (Platform::metadata), and that
  // of a server which the serial number names by its address.
  kj::Array<kj::String> metadataAddresses() const;
  // For logs: "http://169.254.169.254 (Amazon EC2)", "the volume context (OpenNebula)".
  kj::String shown() const;

  // With retries for at most `limit`, then Unavailable with the last cause. NoConfig: there is
  // none, or it is for another system. On NoCloud only the server is asked: the volume cidata is
  // looked for on every platform, before it (node-sources.h).
  kj::Promise<ConfigSearch> config(kj::Duration limit);
  // One attempt at all of them. None exist: they would be on a volume that is not there.
  // Unavailable that names the request; InvalidArgument when a document is none.
  kj::Promise<KnownFacts> facts();
  // One attempt to report that this machine is ready. Unavailable that names the request;
  // InvalidArgument when the goal state makes no sense.
  kj::Promise<void> report();

 private:
  using Body = kj::Maybe<kj::Array<char>>;  // none: 404, or empty
  const platforms::Platform& platform;
  FetchDependencies& fetch;
  Volumes& volumes;
  kj::String server;
  kj::Maybe<kj::String> serverProblem;
  kj::String token;  // empty: none yet, or none is needed
  bool tokenless = false;

  HttpSource place(kj::StringPtr target) const;
  HttpSource placeOf(kj::StringPtr server, kj::StringPtr target,
                     kj::ArrayPtr<const platforms::Header> headers) const;
  kj::Promise<void> getToken();
  kj::Promise<Body> ask(const platforms::Request& request);
  kj::Promise<Body> askAt(kj::StringPtr target);
  kj::Promise<Body> once(kj::StringPtr target);
  kj::Promise<kj::Maybe<VolumeFiles>> fromVolume(kj::Array<kj::String> names, kj::Duration timeout);
  kj::Promise<kj::Maybe<KnownFacts>> factsOfVolume();
  void requireServer() const;
  kj::Promise<ConfigSearch> configOfVolume(kj::Duration limit);
  kj::Promise<ConfigSearch> configOfServer(kj::Duration limit);
  kj::Promise<kj::Maybe<VolumeFiles>> readDisc(kj::Duration timeout);
  kj::Promise<ConfigSearch> configOfDisc(kj::Duration timeout);
  kj::Promise<ConfigSearch> configOfHypervisor(kj::Duration limit);
  kj::Promise<KnownFacts> factsOfHypervisor();
  kj::Promise<kj::Array<char>> answerOf(const HttpSource& source);
  kj::Promise<ConfigSearch> decoded(kj::Array<char> content, kj::String from);
};

}  // namespace talos::machined
