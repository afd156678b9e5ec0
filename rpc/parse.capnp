@0xd3a1b7c2e94f6058;
# Messages between the brain of machined and the process that parses foreign bytes for it
# (machined/confined/parser-client, machined/confined/parser). No capabilities: a process gets one request, may request
# the bytes that it needs, gives one answer and exits. The answer is foreign too: the brain checks every field.

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("talos::rpc");
using Config = import "config.capnp".Config;
using import "configuration.capnp".GenerateRequest;
using import "configuration.capnp".GeneratedFile;
using import "extensions.capnp".ServiceConfig;
using import "install.capnp".FoundOnDisk;
using import "install.capnp".ImagePart;
using import "platform.capnp".PlatformFacts;

struct ParseRequest {
  union {
    none @0 :Void;
    config :group {
      # A machine config: its view and its problems.
      document @1 :Data;
      file @2 :Text;                 # for the places of problems
      mode @3 :Mode;
      kept @35 :Bool;                # by a node, maybe from an earlier release
    }
    redact :group {
      # Two versions of a machine config, as they are shown.
      from @4 :Data;
      to @5 :Data;
    }
    superblock @6 :Void;             # of a device, whose bytes the process requests
    ntp :group {
      # A datagram on an NTP port, for the query with this nonce.
      reply @7 :Data;
      nonce @8 :UInt64;
      sent @9 :Int64;                # ns since 1970, by the local clock
      elapsed @10 :Int64;            # ns
    }
    text @11 :Data;                  # maybe compressed; should be text
    http :group {
      # GET over the connection that the process was started with.
      place @12 :HttpPlace;
      authorities @13 :Text;         # PEM: CAs that are trusted with https
      now @14 :Int64;                # s since 1970, by the local clock
      pieces @19 :Bool;              # the body as it comes, however large
      from @20 :UInt64;              # and from this byte on, if the server can do that
    }
    bytes @15 :Data;                 # the answer to `wanted`
    generate :group {
      # New configs, each parsed again after it was written.
      request @16 :GenerateRequest;
      own @17 :Config;               # of the node whose cluster they are for; unset: a new cluster
    }
    lookUp @18 :Text;                # a host name, whose addresses the process queries from DNS servers
    archive @21 :UInt64;             # bytes of an archive with an image, which the process requests
    signatures @22 :Data;            # the manifest of the signatures of an image in a registry
    signedImage @23 :Data;           # the payload of such a signature
    platform :group {
      # Answers of a platform (machined/platforms), which state the facts of the machine.
      name @24 :Text;
      answers @25 :List(PlatformAnswer);
    }
    userData :group {
      # The machine config of a platform. The answer is `body`; empty: no config.
      encoding @26 :UInt16;          # of machined/platforms/platform.h
      content @27 :Data;
    }
    readyReport @28 :Data;           # the goal state of Azure's wire server. The answer is `body`
    guestConfig @29 :Void;           # in the guest information of VMware. `body`; empty: no config
    guestFacts @30 :Void;            # the facts that its metadata states: `facts`
    clearGuestConfig @31 :Void;      # removes the machine config from it: `cleared`
    disk @32 :Void;                  # content of the whole disk that the process has, read-only, as its descriptor 4
    containerd :group {
      # Fragments of containerd's configuration (common/config/rules/containerd-part.h). The answer is `body`.
      system @33 :Data;              # the document that they are merged into
      fragments @34 :List(Data);
    }
    kms :group {
      # Seals or unseals the key of a volume with the key server to which the process has a connection
      # (machined/confined/parser/kms-call.h). The answer is `body`: the sealed key, or the key.
      secure @36 :Bool;              # TLS
      host @37 :Text;                # that its certificate has to name
      authority @38 :Text;
      authorities @39 :Text;         # PEM: CAs that are trusted
      node @40 :Text;                # UUID of this machine
      secret @41 :Data;              # to be sealed
      userData @42 :Text;            # of the token with the sealed key; empty: seal
    }
    extensionConfigs @43 :Data;      # a machine config, for its documents of extensions' services
  }
  enum Mode { metal @0; cloud @1; container @2; }
}
struct HttpPlace {
  secure @0 :Bool;
  host @1 :Text;
  port @2 :UInt16;
  authority @3 :Text;
  target @4 :Text;
  shown @5 :Text;
  # The fields below are of a request, not of a redirect:
  method @6 :HttpMethod;
  headers @7 :List(HttpHeader);
  body @8 :Data;
  metadata @9 :Bool;                 # the answer as it is, however short, and no redirect
}
enum HttpMethod { get @0; put @1; post @2; }
struct HttpHeader { name @0 :Text; value @1 :Text; }
struct PlatformAnswer { name @0 :Text; body @1 :Data; }
struct ImageSignature {
  payload @0 :Text;                  # sha256:<hex>
  signature @1 :Data;
}
struct ParseAnswer {
  union {
    failed :group {
      kind @0 :UInt16;               # of common/base/error.h
      message @1 :Text;
    }
    config :group {
      view @2 :Config;
      empty @3 :Bool;
      errors @4 :List(Text);         # as they are printed
      warnings @5 :List(Text);
    }
    redacted :group {
      from @6 :Text;
      to @7 :Text;
    }
    superblock :group {
      found @8 :Bool;
      type @9 :UInt16;               # of machined/confined/parser/superblock.h
      label @10 :Text;
      lostTable @27 :Bool;           # machined/confined/parser/partition-table.h
    }
    sample :group {
      offset @11 :Int64;             # ns
      delay @12 :Int64;
      rootDistance @13 :Int64;
      stratum @14 :UInt8;
      leap @15 :UInt8;
    }
    kiss :group {
      action @16 :UInt16;
      code @17 :Text;
    }
    rejected :group {
      error @18 :Text;
      forged @19 :Bool;
    }
    body @20 :Data;
    moved @21 :HttpPlace;            # a redirect
    generated @26 :List(GeneratedFile);
    addresses @28 :List(Text);       # of the host name, best first
    complete @29 :Void;              # the whole body was sent
    archive @30 :List(ImagePart);
    signatures @34 :List(ImageSignature);
    signedImage @35 :Text;           # its digest, sha256:<hex>
    facts @36 :PlatformFacts;
    cleared @37 :List(Text);         # variables that had a machine config: guestinfo.userdata
    disk @38 :FoundOnDisk;
    extensionConfigs @39 :List(ServiceConfig);
    # More messages follow these:
    wanted :group {
      offset @22 :UInt64;
      size @23 :UInt32;
    }
    progress :group {
      step @24 :Text;                # "waiting for the answer"
      received @25 :UInt64;          # bytes
    }
    bodyStart :group {
      # The body follows, from this byte on. Size 0: unknown.
      from @31 :UInt64;
      size @32 :UInt64;
    }
    piece @33 :Data;                 # of the body
  }
}
