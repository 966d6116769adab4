"""The DynamoDB store: any number of instances over one table, in one or several regions.

`items` is the format, `sightings` what this process saw and when, `reading` and
`writing` the calls, `beacons` which regions are heard, `health` what the mark
says of all that, `table` how the table must look, `http_api` the wire. The rules
are the contract's; the choices are decision records 0040 to 0046.
"""
