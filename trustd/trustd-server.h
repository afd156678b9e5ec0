// The server of trustd: TCP 50001, TLS 1.3, the interface of rpc/trust.capnp.
//
// Callers show no certificate, so kLimits bounds what each of them can cost: 48 connections at once
// (more wait in the kernel's queue), messages little larger than the largest request, and a
// connection is closed when nothing was signed on it for kIdle; for a tenth of a second, when
// others wait for its place.
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

// Resolves when the record is where it survives trustd; rejects when the certificate must not be
// given away.
using Keep = kj::Function<kj::Promise<void>(const Record&)>;

// What one connection gets. All must outlive it.
Welcome welcome(Issuer& issuer, Keep& keep, kj::Timer& timer, const Peer& peer,
                kj::Duration idle = kIdle);

}  // namespace talos::trustd
