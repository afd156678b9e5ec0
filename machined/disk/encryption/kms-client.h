// The key servers (KMS) that seal keys of volumes: encryption.keys[].kms of a config. A server has
// the gRPC service sidero.kms.KMSService; it knows a machine by its UUID, and gives a sealed key
// back, so the disk alone has no key.
//
// The brain resolves the name, connects and enforces the timeout; a process without rights that has
// nothing but this connection does the rest, TLS and the parsing of answers among it
// (machined/confined/parser/kms-call.h). Nothing is kept: the sealed key is in the header of the
// volume, as the token of its slot, whose UserData is {"sealedData":"…"}, in base64, as in Talos.
#pragma once

#include <kj/async-io.h>
#include <kj/function.h>
#include <kj/timer.h>

#include "machined/confined/parser-client/foreign-bytes.h"

namespace talos::machined {

// A server, as long as a call to it.
struct KmsServer {
  kj::StringPtr endpoint;
  // The volume is opened before the config is read: only CAs of the image are trusted, also by a
  // node that has a config, because its next boot would not open what another server has sealed.
  bool beforeConfig = false;
};

// Errors are Unavailable, name the server, and give the reason: whatever it is, another try may
// succeed. Only an endpoint and a token that are not valid are FailedPrecondition.
class Kms {
 public:
  virtual ~Kms() noexcept(false) = default;

  // Seals kKmsSecret bytes; returns the UserData of a token. The server has given the key back.
  virtual kj::Promise<kj::String> seal(KmsServer server, kj::ArrayPtr<const kj::byte> secret) = 0;
  // Returns kKmsSecret bytes, which are zeroed when they are freed. They may be others than were
  // sealed: a server may answer so for a machine that it does not know.
  virtual kj::Promise<kj::Array<kj::byte>> unseal(KmsServer server, kj::StringPtr userData) = 0;
};

class NetworkKms final : public Kms {
 public:
  struct Dependencies {
    kj::Network& network;
    kj::Timer& timer;
    // Returns the addresses of a name, best first.
    kj::Function<kj::Promise<kj::Array<kj::String>>(kj::StringPtr host)> resolve;
    // Returns the CAs that are trusted, in PEM; called for endpoints with TLS.
    kj::Function<kj::Promise<kj::String>(bool beforeConfig)> authorities;
    ForeignBytes& foreign;
    kj::ConstFunction<kj::String()> uuid;  // as text; empty if the machine lacks it
    kj::Duration timeout = kKmsTimeout;    // of one call, with its connection
  };
  explicit NetworkKms(Dependencies deps) : deps(kj::mv(deps)) {}

  kj::Promise<kj::String> seal(KmsServer server, kj::ArrayPtr<const kj::byte> secret) override;
  kj::Promise<kj::Array<kj::byte>> unseal(KmsServer server, kj::StringPtr userData) override;

 private:
  Dependencies deps;

  struct Question {
    kj::Array<kj::byte> secret;
    kj::String userData;
  };
  kj::Promise<kj::Array<kj::byte>> ask(kj::String endpoint, bool beforeConfig, Question question);
};

}  // namespace talos::machined
