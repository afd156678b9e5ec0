// Owner of the precompiled header that all other targets reuse.
