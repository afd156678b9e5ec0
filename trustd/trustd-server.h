// The server of trustd: TCP 50001, TLS 1.3, the interface of rpc/trust.capnp.
//
// Callers show no certificate, so kLimits bounds the cost of each: 48 connections at once (more
// wait in the kernel's queue), messages little larger than the largest request, and a connection is
// closed when nothing was signed on it for kIdle, or for a tenth of a second while others wait.
#pragma once

#include "common/wire/rpc-server.h"
#include "trustd/issuer.h"

namespace talos::trustd {

constexpr auto kIdle = 2 * kj::SECONDS;
constexpr ServerLimits kLimits = {.handshake = 5 * kj::SECONDS,
                                  .connections = 48,
                                  .connectionsPerPeer = 32,
                                  .messageWords = 4096,  // 32 KiB
                                  .inFlightWords = 16'384,
                                  .questions = 64,
                                  .capabilities = 16,
                                  .queuedBytes = 256u << 10,
                                  .queue = true};

// Resolves when the record is stored outside of trustd; rejects if the certificate must not be
// issued.
using Keep = kj::Function<kj::Promise<void>(Record)>;

// The session of one connection. All arguments outlive it.
SessionParams openSession(Issuer& issuer, JoinTokens& tokens, Keep& keep, kj::Timer& timer,
                          const Peer& peer, kj::Duration idle = kIdle);

}  // namespace talos::trustd
