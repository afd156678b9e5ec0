@0xdb485551adeba4e9;
# Resources: typed records of the desired and the observed state of the node. The spec of a resource is a struct of a
# *-resources.capnp whose $resource annotation names the type.

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("talos::rpc");
$Cxx.allowCancellation;
using import "annotations.capnp".allow;

struct Metadata {
  namespace @0 :Text;
  type @1 :Text;                   # full name, as Services.v1alpha1.talos.dev
  id @2 :Text;
  version @3 :UInt64;              # 0: absent; 1 when first stored; +1 for every stored change
  phase @4 :Phase;
  owner @5 :Text;                  # the controller that made it
  finalizers @6 :List(Text);
  created @7 :UInt64;              # ns since 1970
  updated @8 :UInt64;
  enum Phase {
    running @0;                    # next: tearingDown, or destroyed
    tearingDown @1;                # next: destroyed, when no finalizers are left
  }
}
struct Resource { metadata @0 :Metadata; spec @1 :AnyPointer; }
struct Kind { namespace @0 :Text; type @1 :Text; }
# An empty namespace means the type's own; the type may be any alias in a request.

interface Resources {
  types @0 () -> (types :List(Text)) $allow("os:reader");
  # Returns the full names of the types that this node knows.

  get @1 (kind :Kind, id :Text) -> (resource :Resource) $allow("os:reader");
  # Returns a resource. NotFound: no such resource. The errors of list().
  list @2 (kind :Kind) -> (resources :List(Resource)) $allow("os:reader");
  # Lists the resources of a kind, sorted by id. Unknown type or namespace: NotFound; ambiguous alias: InvalidArgument;
  # a type that the caller may not read: PermissionDenied.

  watch @3 (kind :Kind, id :Text, sink :ResourceSink) -> () $allow("os:reader");
  # Sends a snapshot first, then every change, until the caller drops the call. An empty id: the whole kind. The errors
  # of list().
}

interface ResourceSink {
  snapshot @0 (resources :List(Resource)) -> stream;
  # All resources of the watch as they are now. Called first, and again after lagged(): replaces everything received
  # before.
  changes @1 (changes :List(Change)) -> stream;
  lagged @2 (missed :UInt64) -> stream;
  # This reader was too slow and missed so many changes; a new snapshot follows.
}
struct Change {
  event @0 :Event;
  resource @1 :Resource;           # destroyed: the last value
  enum Event { created @0; updated @1; destroyed @2; }
}

interface Store extends(Resources) {
  # The store for daemons of the same machine, limited to the kinds that the daemon's uid may read and write
  # (machined/resources/resource-access.h). Writes carry the version that they were computed from.

  put @0 (resource :Resource) -> (version :UInt64);
  # Creates the resource if metadata.version is 0 (Conflict if it exists); otherwise replaces this version (Conflict if
  # it is not the stored one; NotFound if the resource is gone). An equal spec changes nothing, not even the version.
  # Another owner's resource, or a type that the caller may not write: PermissionDenied. Beyond what a daemon, or the
  # node, may keep: ResourceExhausted. No valid id, no spec, or more than 4 MiB: InvalidArgument. A new spec for a
  # resource that is being torn down: Conflict.
  destroy @1 (kind :Kind, id :Text, owner :Text) -> ();
  # Destroys the resource. Conflict while finalizers are left. NotFound; another owner, or a type that the caller may
  # not write: PermissionDenied.
  teardown @2 (kind :Kind, id :Text, owner :Text) -> (ready :Bool);
  # Sets the phase; `ready`: no finalizers are left. A second call changes nothing. NotFound and PermissionDenied as
  # destroy().
  addFinalizer @3 (kind :Kind, id :Text, finalizer :Text) -> ();
  # For root: PermissionDenied for others. Adding a finalizer again changes nothing. NotFound; Conflict when the
  # resource is being torn down; InvalidArgument for a name that is not valid.
  removeFinalizer @4 (kind :Kind, id :Text, finalizer :Text) -> ();
  # For root, as addFinalizer(): PermissionDenied. Removing an absent finalizer changes nothing. NotFound.
}
