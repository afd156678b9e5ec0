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
  enum Phase { running @0; tearingDown @1; }
}
struct Resource { metadata @0 :Metadata; spec @1 :AnyPointer; }
struct Kind { namespace @0 :Text; type @1 :Text; }
# An empty namespace means the type's own; the type may be any alias in a request.

interface Resources {
  types @0 () -> (types :List(Text)) $allow("os:reader");
  # Full names of the types that this node knows.

  get @1 (kind :Kind, id :Text) -> (resource :Resource) $allow("os:reader");
  # NotFound: no such resource. The errors of list().
  list @2 (kind :Kind) -> (resources :List(Resource)) $allow("os:reader");
  # Sorted by id. Unknown type or namespace: NotFound; ambiguous alias: InvalidArgument; a type that the caller may not
  # read: PermissionDenied.

  watch @3 (kind :Kind, id :Text, sink :ResourceSink) -> () $allow("os:reader");
  # An empty id: the whole kind. First a snapshot, then every change, until the caller drops the call. The errors of list().
}

interface ResourceSink {
  snapshot @0 (resources :List(Resource)) -> stream;
  # Everything of the kind, as it is now. Comes first, and again after lagged(): it replaces everything received before.
  changes @1 (changes :List(Change)) -> stream;
  lagged @2 (missed :UInt64) -> stream;
  # This reader fell behind by so many changes; a new snapshot follows.
}
struct Change {
  event @0 :Event;
  resource @1 :Resource;           # destroyed: the last value
  enum Event { created @0; updated @1; destroyed @2; }
}

interface Store extends(Resources) {
  # The store for daemons of the same machine, limited to the kinds that their uid may read and write
  # (machined/resources/resource-access.h). Writes carry the version that they were computed from.

  put @0 (resource :Resource) -> (version :UInt64);
  # metadata.version 0: create (Conflict if it exists); otherwise the version that is replaced (Conflict
  # if it is not the stored one; NotFound if it is gone). An equal spec changes nothing and bumps nothing.
  # Another owner's resource, or a type that the caller may not write: PermissionDenied. More than a daemon, or the node,
  # may keep: ResourceExhausted. No valid id, no spec, or more than 4 MiB: InvalidArgument. One that is being torn down
  # takes no new spec: Conflict.
  destroy @1 (kind :Kind, id :Text, owner :Text) -> ();
  # Conflict while finalizers are left. NotFound; another owner, or a type that the caller may not write: PermissionDenied.
  teardown @2 (kind :Kind, id :Text, owner :Text) -> (ready :Bool);
  # Sets the phase; ready: no finalizers are left. A second time changes nothing. NotFound and PermissionDenied as destroy().
  addFinalizer @3 (kind :Kind, id :Text, finalizer :Text) -> ();
  # For root: PermissionDenied for others. A finalizer that is there changes nothing. NotFound; Conflict when the resource is
  # being torn down; InvalidArgument for a name that is not valid.
  removeFinalizer @4 (kind :Kind, id :Text, finalizer :Text) -> ();
  # For root, as addFinalizer(): PermissionDenied. One that is not there changes nothing. NotFound.
}
