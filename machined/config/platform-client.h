// Gets the machine config and the facts of this machine from its platform
// (machined/platforms/platform.h): from a volume, from the hypervisor, or from the metadata
// service. Requests to the service are sent one after the other, each over a new connection, and a
// confined process reads each answer. Reports that the machine is ready, if the platform expects
// this.
//
// 404, an empty answer and a missing file mean that there is no config; every other failure is
// retried. Tokens are never logged, and no redirect is followed. Keeps no state: after a crash the
// search starts again.
#pragma once

#include "machined/config/config-fetch.h"
#include "machined/disk/volumes/volume-search.h"
#include "machined/platforms/platform.h"

namespace talos::machined {

class PlatformClient {
 public:
  // All references must outlive the client. `serial` is the machine's, from its firmware.
  PlatformClient(const platforms::Platform& platform, kj::StringPtr serial,
                 FetchDependencies& fetch, Volumes& volumes);

  bool hasFacts() const { return platform.facts.size() > 0 || onHypervisor(); }
  bool expectsReport() const { return platform.report != nullptr; }
  // Returns true if the machine config is in the guest information of VMware, or on a disc that its
  // hypervisor gives instead.
  bool onHypervisor() const { return platform.place == platforms::Place::kGuestInfo; }
  // Returns true if the platform has a metadata service, or if a serial number names one, even
  // wrongly.
  bool hasServer() const { return server.size() > 0; }
  // Returns the addresses of the services that pods must not reach (Platform::metadata), and that
  // of a server which the serial number names by address.
  kj::Array<kj::String> metadataAddresses() const;
  // Returns the name for logs: "http://169.254.169.254 (Amazon EC2)", "the volume context
  // (OpenNebula)".
  kj::String shown() const;

  // Retries for at most `limit`, then throws Unavailable with the last cause. Returns NoConfig if
  // no config exists, or if it is for another system. On NoCloud only the server is queried: the
  // volume cidata is searched on every platform, before this (node-sources.h).
  kj::Promise<ConfigSearch> config(kj::Duration limit);
  // Makes one attempt to get all facts. Returns no facts if they would be on a volume that does not
  // exist. Throws Unavailable with the request's name; InvalidArgument if a document is not valid.
  kj::Promise<KnownFacts> facts();
  // Makes one attempt to report that this machine is ready. Throws Unavailable with the request's
  // name; InvalidArgument if the goal state makes no sense.
  kj::Promise<void> report();

 private:
  using Body = kj::Maybe<kj::Array<char>>;  // nullptr: 404, or empty
  const platforms::Platform& platform;
  FetchDependencies& fetch;
  Volumes& volumes;
  kj::String server;
  kj::Maybe<kj::String> serverProblem;
  kj::String token;  // empty before the first request, or if no token is needed
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
