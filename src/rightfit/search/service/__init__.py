"""The table of replicas, which the families of services share: sized for a load, priced by the
month or by the job."""
